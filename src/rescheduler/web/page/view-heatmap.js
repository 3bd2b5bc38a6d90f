// The first view: how the cluster stands in a few figures, the heat map, spread over time, and what happens right now.

import { el, fill, keyed } from "./dom.js";
import { heatMap } from "./heatmap.js";
import { heatmapTable } from "./heatmap-table.js";
import { moment, number, percent, t, word } from "./i18n.js";
import { legend } from "./legend.js";
import { othersOf, stateWords } from "./nodes.js";
import { badge, card, empty, nodeLink, view } from "./pieces.js";
import { choices, offerMetrics, prefer, preference } from "./preferences.js";
import { links } from "./router.js";
import { spreadChart } from "./spread.js";
import { migrationRow } from "./steps.js";
import { isUnderWay, known, migrationKey, migrationsInOrder, on } from "./store.js";
import { ticking } from "./ticking.js";
import { useNote } from "./use.js";

const LATELY = 6;

export function show(signal) {
  const bar = el("div", { class: "selection", hidden: true });
  const map = heatMap(signal, (index) => select(bar, index));
  const table = heatmapTable(signal);
  const picture = el("div", {}, map, legend(signal), useNote(signal), bar);
  const root = view("heatmap", t("nav.heatmap"),
    figures(signal),
    el("div", { class: "overview" },
      el("div", { class: "overview-map" }, card(t("heatmap.title"), controls(picture, table, signal), picture, table.element)),
      el("div", { class: "overview-now" }, happening(signal)),
      el("div", { class: "overview-spread" }, card(t("spread.title"), key(), el("div", { class: "spreads" }, spreadChart("cpu", signal), spreadChart("memory", signal))))));
  root.querySelector("h1").classList.add("unseen");
  root.dataset.loaded = "true";
  return root;
}

// --- The figures -----------------------------------------------------------------------------------------------------

function figures(signal) {
  const row = el("ul", { class: "figures", aria: { label: t("overview.label") } });
  const update = () => {
    const { overview } = known;
    if (!overview) return;
    const { counts, utilisation, thresholds } = overview;
    const pools = Object.entries(utilisation.hotByPool ?? {}).map(([name, count]) => `${name} ${number(count)}`);
    const hotNote = pools.length > 0 ? pools.join(" · ") : t("overview.hotNote", { cpu: percent(thresholds.cpu), memory: percent(thresholds.memory) });
    fill(row,
      figure(t("overview.nodes"), number(counts.nodes), t("overview.pods", { count: counts.pods })),
      figure(t("overview.hot"), number(utilisation.hotNodes), hotNote, utilisation.hotNodes > 0 ? "hot" : ""),
      gap("cpu", utilisation.cpu, thresholds.imbalance),
      gap("memory", utilisation.memory, thresholds.imbalance),
      figure(t("overview.moving"), number(counts.inProgress), counts.awaitingApproval > 0 ? t("overview.awaiting", { count: counts.awaitingApproval }) : t("overview.pending", { count: counts.pending }), counts.inProgress > 0 ? "busy" : ""),
      figure(t("overview.completed"), number(counts.completed), t("overview.failed", { count: counts.failed }), counts.failed > 0 ? "warned" : ""));
  };
  update();
  on("overview", update, signal);
  return row;
}

function figure(label, value, note, look = "") {
  return el("li", { class: `figure ${look}` }, el("span", { class: "figure-label", text: label }), el("b", { text: value }), el("span", { class: "figure-note", text: note }));
}

function gap(resource, spread, allowed) {
  const apart = spread.max - spread.min;
  const label = t("overview.gap", { resource: word("metric", resource) });
  return figure(label, number(apart, 1), t("overview.gapNote", { min: percent(spread.min), max: percent(spread.max), allowed: number(allowed) }), apart > allowed ? "hot" : "");
}

// --- The heat map's controls -----------------------------------------------------------------------------------------

function controls(picture, table, signal) {
  const options = (name) => choices(name).map((value) => el("option", { value, selected: preference(name) === value, text: word(name, value) }));
  const menu = (name, label) =>
    el("label", { class: "menu" }, el("span", { text: label }),
      el("select", { id: name, on: { change: (event) => prefer(name, event.target.value) } }, options(name)));
  offerMetrics(known.nodes?.resources ?? []);
  on("nodes", (rows) => {
    if (rows === null && offerMetrics(known.nodes?.resources ?? [])) fill(document.getElementById("metric"), options("metric"));
  }, signal);
  const [asMap, asTable] = ["map", "table"].map((form) =>
    el("button", { type: "button", id: `show-${form}`, class: "segment", aria: { pressed: String(form === "map") }, text: word("heatmap.as", form),
      on: { click: () => turn(form === "table") } }));
  const turn = (tabular) => {
    picture.hidden = tabular;
    table.element.hidden = !tabular;
    asMap.setAttribute("aria-pressed", String(!tabular));
    asTable.setAttribute("aria-pressed", String(tabular));
    table.show();
  };
  return [menu("metric", t("heatmap.metric")), menu("group", t("heatmap.group")), el("div", { class: "segments" }, asMap, asTable)];
}

function select(bar, index) {
  bar.hidden = index < 0;
  if (index < 0) return;
  const { nodes } = known;
  const name = nodes.names[index];
  fill(bar, nodeLink(name),
    el("span", { text: `${t("metric.cpu")} ${percent(nodes.cpu[index], 1)}` }),
    el("span", { text: `${t("metric.memory")} ${percent(nodes.memory[index], 1)}` }),
    el("span", { text: `${t("metric.pods")} ${number(nodes.pods[index])} / ${number(nodes.podRoom[index])}` }),
    Object.entries(othersOf(nodes, index)).map(([name, share]) => (share === null ? null : el("span", { text: `${name} ${percent(share, 1)}` }))),
    stateWords(nodes.state[index]).map((text) => badge(text)),
    el("a", { class: "button small", href: links.node(name), data: { openNode: name }, text: t("heatmap.open") }));
}

function key() {
  const entry = (look, text) => el("span", { class: `key ${look}`, text });
  return ["max", "mean", "min"].map((name) => entry(name, word("spread.line", name)))
    .concat(entry("threshold", t("spread.threshold")), entry("allowed", t("spread.allowed")));
}

// --- What happens ----------------------------------------------------------------------------------------------------

function happening(signal) {
  const next = el("p", { class: "next" });
  const list = el("div", { class: "migration-list" });
  const nothing = empty(t("now.nothing"));
  const more = el("a", { class: "more", href: links.migrations(), text: t("now.all") });
  const telling = () => {
    const { overview } = known;
    if (!overview) return;
    const { paused, nextPlan, counts, window: hours } = overview;
    if (paused) fill(next, badge(t("paused.badge"), "warn"), " ", t("now.paused"));
    else if (hours && !hours.open && hours.until) fill(next, t("now.closed"), " ", moment(hours.until));
    else if (counts.awaitingApproval > 0) fill(next, badge(t("phase.awaits"), "warn"), " ", el("a", { href: links.plan(), text: t("now.approve", { count: counts.awaitingApproval }) }));
    else if (nextPlan) fill(next, t("now.next"), " ", ticking(nextPlan, "until"));
    else fill(next, t("now.noPlan"));
  };
  const rows = () => {
    const all = migrationsInOrder();
    const moving = all.filter(isUnderWay);
    const shown = [...moving.slice(0, LATELY), ...all.filter((row) => !isUnderWay(row))].slice(0, LATELY);
    keyed(list, shown, migrationKey, (row) => migrationRow(row, true));
    nothing.hidden = shown.length > 0;
  };
  telling();
  rows();
  on("overview", telling, signal);
  on("migrations", rows, signal);
  return card(t("now.title"), more, next, list, nothing);
}
