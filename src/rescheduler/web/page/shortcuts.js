// Keys for everything, and the list of them under "?". Keys do nothing while text is typed, or with Ctrl, Alt or Meta.

import { openDialog } from "./dialogs.js";
import { el } from "./dom.js";
import { t, word } from "./i18n.js";
import { choices, prefer, preference } from "./preferences.js";
import { go, links } from "./router.js";

const VIEWS = { o: "heatmap", p: "plan", m: "migrations", r: "outcomes", c: "config", h: "health" };
const NEXT_KEY = 1_500;

function next(name) {
  const all = choices(name);
  prefer(name, all[(all.indexOf(preference(name)) + 1) % all.length]);
  const menu = document.getElementById(name);
  if (menu) menu.value = preference(name);
}

const SINGLE = {
  "?": showHelp,
  "/": () => document.getElementById("search")?.focus(),
  t: () => next("theme"),
  l: () => next("language"),
  u: () => next("metric"),
  z: () => next("group"),
};

/** Listens for the whole page. */
export function startShortcuts() {
  let waitsUntil = 0;
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.altKey || event.metaKey || isTyping(event.target)) return;
    if (document.getElementById("dialog").open) return;
    const second = Date.now() < waitsUntil;
    waitsUntil = 0;
    if (second && VIEWS[event.key]) go(links[VIEWS[event.key]]());
    else if (event.key === "g") waitsUntil = Date.now() + NEXT_KEY;
    else if (SINGLE[event.key]) SINGLE[event.key]();
    else return;
    event.preventDefault();
  });
}

function isTyping(target) {
  return target instanceof HTMLElement && (target.matches("input, textarea, select") || target.isContentEditable);
}

export function showHelp() {
  const line = (keys, text) => el("div", {}, el("dt", {}, keys.map((key) => [el("kbd", { text: key }), " "])), el("dd", { text }));
  openDialog({
    kind: "help",
    title: t("keys.title"),
    body: [
      el("dl", { class: "keys" },
        Object.entries(VIEWS).map(([key, view]) => line(["g", key], word("nav", view))),
        line(["/"], t("keys.search")),
        line(["u"], t("keys.metric")),
        line(["z"], t("keys.group")),
        line(["t"], t("keys.theme")),
        line(["l"], t("keys.language")),
        line(["←", "→", "↑", "↓"], t("keys.arrows")),
        line(["Enter"], t("keys.enter")),
        line(["Esc"], t("keys.escape")),
        line(["?"], t("keys.help"))),
    ],
  });
}
