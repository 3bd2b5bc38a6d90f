// What the controller goes by: its strategies with their settings, and the effective configuration as a file would say it.

import { read } from "./api.js";
import { el, fill } from "./dom.js";
import { t } from "./i18n.js";
import { icon } from "./icons.js";
import { notify } from "./notice.js";
import { badge, card, empty, facts, failed, view } from "./pieces.js";

export function show(signal) {
  const content = el("div", { class: "stack" }, empty(t("state.loading")));
  const root = view("config", t("nav.config"), content);
  const load = async () => {
    try {
      const { yaml, strategies } = await read("config", signal);
      fill(content, card(t("config.strategies"), null, el("div", { class: "strategies" }, strategies.map(strategy))),
        card(t("config.effective"), copyButton(yaml), el("pre", { class: "yaml", tabindex: "0", aria: { label: t("config.effective") } }, yaml.split("\n").map(line))));
      root.dataset.loaded = "true";
    } catch (error) {
      if (error.name !== "AbortError") failed(content, error, load);
    }
  };
  load();
  return root;
}

function strategy({ name, enabled, about, settings }) {
  const values = Object.entries(settings).map(([key, value]) => [key, typeof value === "string" ? value : JSON.stringify(value)]);
  return el("article", { class: enabled ? "strategy" : "strategy off", data: { strategy: name } },
    el("h3", {}, name, " ", badge(enabled ? t("config.on") : t("config.off"), enabled ? "good" : "")),
    el("p", { text: about }), values.length > 0 ? facts(...values) : null);
}

// Keys apart from values, so that the eye finds a field; comments and lists stay as they are.
function line(text) {
  const found = /^(\s*(?:- )?)([A-Za-z][\w./-]*:)(.*)$/.exec(text);
  if (!found) return `${text}\n`;
  return [found[1], el("span", { class: "yaml-key", text: found[2] }), `${found[3]}\n`];
}

function copyButton(text) {
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      notify(t("config.copied"), "good");
    } catch {
      notify(t("config.notCopied"), "bad"); // only pages of https and of loopback may write to the clipboard
    }
  };
  return el("button", { type: "button", class: "button small", on: { click: copy } }, icon("copy"), el("span", { text: t("config.copy") }));
}
