// What is around every view: brand, search, whether the page is live, pause and resume, sign-in, navigation, settings.
// Built again when the language changes; the rest follows the store.

import { askPause, askResume } from "./actions.js";
import { el, fill, say } from "./dom.js";
import { t, word } from "./i18n.js";
import { icon } from "./icons.js";
import { badge } from "./pieces.js";
import { choices, prefer, preference } from "./preferences.js";
import { links } from "./router.js";
import { searchBox } from "./search.js";
import { actionButton, askToken, forgetToken } from "./session.js";
import { showHelp } from "./shortcuts.js";
import { known, on } from "./store.js";
import { ticking } from "./ticking.js";

const VIEWS = ["heatmap", "plan", "migrations", "outcomes", "config", "health"];

/** Builds header, navigation and settings; they follow the store until `signal` ends. */
export function buildShell(signal) {
  document.getElementById("skip").textContent = t("skip");
  const top = document.getElementById("top");
  fill(top, brand(signal), searchBox(), el("div", { class: "top-buttons" }, livePill(signal), pauseButtons(signal), account(signal)), pausedBanner(signal));
  followHeight(top, signal);
  const nav = document.getElementById("nav");
  nav.setAttribute("aria-label", t("nav.label"));
  fill(nav, el("ul", {}, VIEWS.map((view) =>
    el("li", {}, el("a", { href: links[view](), data: { to: view } }, icon(view), el("span", { text: word("nav", view) }), marker(view, signal))))));
  fill(document.getElementById("settings"), menu("language", t("settings.language")), menu("theme", t("settings.theme")),
    el("button", { type: "button", id: "help", class: "quiet keys-button", on: { click: showHelp } }, el("kbd", { text: "?" }), t("keys.title")));
}

// What sticks below the header must know how tall it is: it grows when rescheduling is paused, and wraps when narrow.
function followHeight(top, signal) {
  const size = new ResizeObserver(() => document.documentElement.style.setProperty("--top", `${top.offsetHeight}px`));
  size.observe(top);
  signal.addEventListener("abort", () => size.disconnect());
}

/** Marks in the navigation which view is shown. */
export function markView(view) {
  for (const link of document.querySelectorAll("#nav a")) {
    if (link.dataset.to === view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

function brand(signal) {
  const where = el("span", { class: "brand-where" });
  const update = () => say(where, known.overview?.cluster ?? "");
  update();
  on("overview", update, signal);
  return el("a", { class: "brand", href: links.heatmap(), aria: { label: t("brand.home") } },
    el("img", { src: "page/icon.svg", alt: "", width: 28, height: 28 }), el("span", { class: "brand-name" }, "kube-rescheduler", where));
}

function livePill(signal) {
  const said = el("span");
  const pill = el("span", { id: "live", class: "pill", role: "status" }, el("span", { class: "dot", aria: { hidden: "true" } }), said);
  const update = () => {
    pill.dataset.on = String(known.live);
    say(said, known.live ? t("live.on") : t("live.off"));
    pill.title = known.live ? t("live.onNote") : t("live.offNote");
  };
  update();
  on("live", update, signal);
  return pill;
}

function pauseButtons(signal) {
  const pause = actionButton({ action: "pause", right: "pause", id: "pause", label: t("pause.button"), icon: icon("pause"), look: "compact", press: askPause });
  const resume = actionButton({ action: "resume", right: "pause", id: "resume", label: t("resume.button"), icon: icon("resume"), look: "compact primary", press: askResume });
  const update = () => {
    const paused = Boolean(known.overview?.paused);
    const had = document.activeElement === pause || document.activeElement === resume;
    pause.hidden = paused;
    resume.hidden = !paused;
    if (had) (paused ? resume : pause).focus();
  };
  update();
  on("overview", update, signal);
  return [pause, resume];
}

function account(signal) {
  const enter = el("button", { type: "button", id: "sign-in", class: "button compact", on: { click: () => askToken("") } }, icon("person"), el("span", { text: t("signin.open") }));
  const name = el("span", { class: "account-name", id: "who" });
  const leave = el("button", { type: "button", id: "sign-out", class: "quiet", text: t("signin.leave"), on: { click: forgetToken } });
  const update = () => {
    const { who, overview } = known;
    const local = overview?.access === "local";
    enter.hidden = Boolean(who?.name) || local || !overview;
    leave.hidden = !who?.name || local;
    say(name, local ? t("access.here") : who?.name ?? "");
    name.title = who?.name ?? "";
  };
  update();
  on("who", update, signal);
  on("overview", update, signal);
  return el("span", { class: "account" }, enter, name, leave);
}

function pausedBanner(signal) {
  const banner = el("div", { class: "banner paused", hidden: true });
  // The time renews itself every second, so it stands beside what screen readers are told, not in it.
  const said = el("span", { role: "status" });
  const since = el("span", { class: "dim" });
  fill(banner, said, since);
  let shown = "";
  const update = () => {
    const { paused } = known.overview ?? {};
    const now = JSON.stringify(paused ?? null);
    if (now === shown) return;
    shown = now;
    banner.hidden = !paused;
    if (!paused) return;
    fill(said, badge(t("paused.badge"), "warn"), " ", t("paused.by", { by: paused.by || "–" }), paused.reason ? [": ", el("q", { text: paused.reason })] : null);
    fill(since, paused.since ? ticking(paused.since) : null);
  };
  update();
  on("overview", update, signal);
  return banner;
}

// A number beside a view: what waits or goes on there, or that something is wrong.
function marker(view, signal) {
  const mark = el("span", { class: "nav-mark", hidden: true });
  const values = {
    plan: ({ counts }) => counts.awaitingApproval,
    migrations: ({ counts }) => counts.inProgress,
    health: ({ health, warnings }) => health.filter((part) => !part.ok).length + warnings.length,
  };
  if (!values[view]) return null;
  const update = () => {
    const value = known.overview ? values[view](known.overview) : 0;
    mark.hidden = value === 0;
    say(mark, value > 99 ? "99+" : String(value));
  };
  update();
  on("overview", update, signal);
  return mark;
}

function menu(name, label) {
  return el("label", { class: "menu" }, el("span", { text: label }),
    el("select", { id: name, on: { change: (event) => prefer(name, event.target.value) } },
      choices(name).map((value) => el("option", { value, selected: preference(name) === value, text: word(name, value) }))));
}
