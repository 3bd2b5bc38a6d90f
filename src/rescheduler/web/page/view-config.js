// What the controller goes by: its strategies with their settings, and the effective configuration as a file would say it.
// If the file differs: why it was refused, or which fields wait for a restart.

import { read } from "./api.js";
import { el, fill } from "./dom.js";
import { number, t, word } from "./i18n.js";
import { icon } from "./icons.js";
import { notify } from "./notice.js";
import { badge, card, empty, facts, failed, view, warnings } from "./pieces.js";
import { known, on } from "./store.js";
import { ticking } from "./ticking.js";

export function show(signal) {
  const content = el("div", { class: "stack" }, empty(t("state.loading")));
  const root = view("config", t("nav.config"), content);
  let shown = null;
  const revision = () => known.overview?.configuration?.revision ?? null;
  const load = async () => {
    shown = revision();
    try {
      const { yaml, strategies, pools = [], since, waiting, refusal } = await read("config", signal);
      fill(content, refused(refusal), awaiting(waiting), card(t("config.strategies"), null, el("div", { class: "strategies" }, strategies.map(strategy))),
        pools.length > 0 ? card(t("config.pools"), null, el("div", { class: "strategies" }, pools.map(pool))) : null,
        card(t("config.effective"), [el("span", { class: "dim" }, t("config.read"), " ", ticking(since)), copyButton(yaml)], el("pre", { class: "yaml", tabindex: "0", aria: { label: t("config.effective") } }, yaml.split("\n").map(line))));
      root.dataset.loaded = "true";
    } catch (error) {
      if (error.name !== "AbortError") failed(content, error, load);
    }
  };
  on("overview", () => revision() !== shown && load(), signal);
  load();
  return root;
}

function refused(refusal) {
  if (!refusal) return null;
  const more = refusal.more > 0 ? [t("list.more", { count: refusal.more })] : [];
  return el("section", { class: "card refusal", role: "alert" },
    el("header", { class: "card-head" }, el("h2", { text: t("config.refused") }), el("div", { class: "card-aside" }, ticking(refusal.at))),
    el("p", { text: t("config.stays") }), warnings([...refusal.errors, ...more]));
}

function awaiting(fields) {
  if (fields.length === 0) return null;
  return el("section", { class: "card awaits-restart" },
    el("header", { class: "card-head" }, el("h2", { text: t("config.waiting") })),
    el("p", { text: t("config.restart") }), warnings(fields));
}

function strategy({ name, enabled, about, settings, pools = {} }) {
  const of = Object.entries(pools);
  const runs = enabled || of.some(([, here]) => here.enabled);
  return el("article", { class: runs ? "strategy" : "strategy off", data: { strategy: name } },
    el("h3", {}, name, " ", onOff(enabled)),
    el("p", { text: about }), facts(...values(settings ?? {})),
    of.map(([pool, here]) => el("section", { class: "strategy-pool", data: { pool } },
      el("h4", {}, t("node.pool", { pool }), " ", onOff(here.enabled)), facts(...values(here.settings)))));
}

function onOff(enabled) {
  return badge(enabled ? t("config.on") : t("config.off"), enabled ? "good" : "");
}

function values(settings) {
  return Object.entries(settings).map(([key, value]) => [key, typeof value === "string" ? value : JSON.stringify(value)]);
}

// Nodes with thresholds and strategies of their own; a node belongs to the first that selects it.
function pool({ name, nodeSelector, thresholds, mode, enabled }) {
  const limits = Object.entries(thresholds).map(([resource, limit]) => `${word("metric", resource)} ${number(limit)}`);
  return el("article", { class: "strategy", data: { pool: name } }, el("h3", { text: name }),
    facts([t("config.selector"), el("code", { text: nodeSelector })], [word("config.mode", mode), limits.join(", ")],
      [t("config.runs"), enabled.length > 0 ? enabled.map((each) => badge(each)) : t("config.none")]));
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
