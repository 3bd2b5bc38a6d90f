// Small parts that several views share: headings, cards, links to nodes and pods, badges, bars, empty and error states.

import { el, fill } from "./dom.js";
import { percent, phrase, t, word } from "./i18n.js";
import { icon } from "./icons.js";
import { links } from "./router.js";
import { known } from "./store.js";

/** A view's root with its heading; the heading takes focus when the view is come to. */
export function view(name, title, ...children) {
  return el("section", { class: `view view-${name}`, data: { view: name }, aria: { labelledby: "view-title" } },
    el("h1", { id: "view-title", tabindex: "-1", text: title }), children);
}

/** A card with a heading and what stands to the right of it. */
export function card(title, aside, ...children) {
  return el("section", { class: "card" },
    el("header", { class: "card-head" }, el("h2", { text: title }), el("div", { class: "card-aside" }, aside)), children);
}

/** A fold whose content is made when it is opened; `opened` remembers by its key that it was. */
export function fold(details, opened, key, fillIn) {
  details.open = opened.has(key);
  if (details.open) fillIn();
  details.addEventListener("toggle", () => {
    if (details.open) opened.add(key);
    else opened.delete(key);
    if (details.open && details.children.length === 1) fillIn();
  });
  return details;
}

export function nodeLink(name) {
  return name ? el("a", { class: "name", href: links.node(name), text: name }) : el("span", { class: "dim", text: "–" });
}

export function podLink(namespace, name) {
  return el("a", { class: "name", href: links.pod(namespace, name) }, el("span", { class: "dim", text: `${namespace}/` }), name);
}

/** Source → target, as links; a pod that has ended is removed, and goes nowhere. */
export function way(source, target, method) {
  if (method === "remove") return el("span", { class: "way" }, nodeLink(source), el("span", { class: "dim", text: t("way.removed") }));
  return el("span", { class: "way" }, nodeLink(source), icon("arrow"), el("span", { class: "unseen", text: t("way.to") }), nodeLink(target));
}

export function badge(text, look = "") {
  return el("span", { class: `badge ${look}`, text });
}

const PHASE_LOOKS = { Pending: "", InProgress: "busy", Completed: "good", Failed: "bad" };

export function phaseBadge(row) {
  return row.awaitsApproval ? badge(t("phase.awaits"), "warn") : badge(word("phase", row.phase), PHASE_LOOKS[row.phase] ?? "");
}

/** A horizontal bar of a use in per cent with its threshold. */
export function meter(label, value, threshold, detail) {
  const known = Number.isFinite(value);
  const inner = el("span", { class: "meter-fill" });
  inner.style.width = `${Math.max(0, Math.min(100, known ? value : 0))}%`;
  const edge = threshold === null ? null : el("span", { class: "meter-edge" });
  if (edge) edge.style.left = `${Math.min(100, threshold)}%`;
  const hot = threshold !== null && value > threshold;
  return el("div", { class: hot ? "meter hot" : "meter" },
    el("div", { class: "meter-head" }, el("span", { text: label }), el("b", { text: percent(value, 1) })),
    el("div", { class: "meter-bar", role: "img", aria: { label: `${label} ${percent(value, 1)}` } }, inner, edge),
    detail ? el("div", { class: "meter-detail", text: detail }) : null);
}

/** Names and values, as a definition list; pairs without a value are left out. */
export function facts(...pairs) {
  return el("dl", { class: "facts" }, pairs.filter(([, value]) => value !== null && value !== "").map(([name, value]) =>
    el("div", {}, el("dt", { text: name }), el("dd", {}, value))));
}

/** The caption of a guard or predicate; its name until the captions are loaded. */
export function caption(kind, name) {
  return phrase(known.captions[kind][name] ?? name);
}

/** A guard or predicate: its caption, and the name that configuration and programs use. */
export function named(kind, name) {
  const said = caption(kind, name);
  return el("span", { class: "guard", title: name }, said, said === name ? null : el("code", { class: "dim", text: name }));
}

/** The sentences that warn. */
export function warnings(list) {
  return list.length === 0 ? null : el("ul", { class: "warnings" }, list.map((text) => el("li", {}, icon("warning"), el("span", { text }))));
}

export function empty(text) {
  return el("p", { class: "empty", text });
}

/** Shows in a view's place that its data could not be had, with a way to try again. */
export function failed(root, error, again) {
  fill(root, el("div", { class: "failed", role: "alert" },
    el("p", { text: error.message || t("error.unreachable") }),
    el("button", { type: "button", class: "button", text: t("error.again"), on: { click: again } })));
}
