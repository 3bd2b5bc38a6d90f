// The heat map as a table, for screen readers and for sorting: every node, a page at a time.

import { el, fill } from "./dom.js";
import { number, percent, t } from "./i18n.js";
import { othersOf, stateWords } from "./nodes.js";
import { pagedTable } from "./paging.js";
import { badge, nodeLink } from "./pieces.js";
import { known, on } from "./store.js";

/** Makes it; it follows the nodes while it is shown. */
export function heatmapTable(signal) {
  const element = el("div", { id: "heatmap-table", hidden: true });
  let table = null;
  let columns = "";
  let items = [];
  const show = (rows) => {
    const { nodes } = known;
    if (element.hidden || !nodes) return;
    const resources = nodes.resources ?? [];
    if (!table || columns !== resources.join()) {
      columns = resources.join();
      table = tableOf(resources);
      fill(element, table.element);
    }
    if (rows === null || items.length !== nodes.names.length) items = nodes.names.map((_, index) => ({ index }));
    else for (const index of rows) items[index] = { index }; // a new item: its row is built anew
    table.show(items);
  };
  on("nodes", show, signal);
  return { element, show: () => show(null) };
}

function tableOf(resources) {
  const at = (column) => (index) => known.nodes[column][index];
  const label = (column, labels) => (index) => known.nodes[labels][known.nodes[column][index]] || "–";
  return pagedTable({
    caption: t("heatmap.table"),
    keyOf: (item) => item.index,
    data: ({ index }) => ({ node: known.nodes.names[index] }),
    sort: ["cpu", true],
    columns: [
      column("name", t("table.node"), at("names"), nodeLink, { head: true }),
      column("cpu", t("metric.cpu"), at("cpu"), (value) => percent(value, 1), { numeric: true }),
      column("memory", t("metric.memory"), at("memory"), (value) => percent(value, 1), { numeric: true }),
      column("pods", t("metric.pods"), at("pods"), number, { numeric: true }),
      ...resources.map((name) => column(name, name, (index) => othersOf(known.nodes, index)[name] ?? -1, share, { numeric: true })),
      column("zone", t("group.zone"), label("zone", "zones"), String, { short: true }),
      column("pool", t("group.pool"), label("pool", "pools"), String, { short: true }),
      column("state", t("table.state"), at("state"), (state) => stateWords(state).map((text) => badge(text)), {}),
    ],
  });
}

// What a node has none of sorts below what it has and does not use.
function share(value) {
  return value < 0 ? "–" : percent(value, 1);
}

function column(key, label, value, cell, more) {
  return { key, label, value: ({ index }) => value(index), cell: ({ index }) => cell(value(index)), ...more };
}
