// One node: how full it is, its marks, the pods on it with what guards say of each, its moves, and maintenance on or off.

import { maintenanceButton } from "./actions.js";
import { path, read } from "./api.js";
import { el, fill, keyed } from "./dom.js";
import { bytes, cores, number, percent, t, word } from "./i18n.js";
import { pagedTable } from "./paging.js";
import { badge, card, failed, meter, named, podLink, view, warnings } from "./pieces.js";
import { rightsNote } from "./session.js";
import { migrationRow } from "./steps.js";
import { isUnderWay, known, migrationKey, migrationsInOrder, on } from "./store.js";
import { ticking } from "./ticking.js";
import { usedOf, useNote } from "./use.js";

const RENEW = 2_000;

export function show(signal, [name]) {
  const states = el("div", { class: "tags" });
  const buttons = el("div", { class: "actions" });
  const trouble = el("div");
  const use = el("div", { class: "meters" });
  const pool = el("div", { class: "tags" });
  const marks = el("div");
  const pods = podTable();
  const moves = el("div", { class: "migration-list" });
  const movesCard = card(t("node.moves"), null, moves);
  const content = el("div", { class: "stack" }, buttons, trouble, card(t("node.use"), pool, use, useNote(signal)), movesCard, card(t("node.pods"), null, pods.element), marks);
  const problem = el("div");
  const root = view("node", name, states, problem, content);
  let shown = "";
  let underMaintenance = null;

  const render = (node) => {
    fill(states, node.states.map((state) => badge(word("state.of", state), state === "not ready" ? "bad" : "warn")));
    if (underMaintenance !== node.states.includes("maintenance")) {
      underMaintenance = node.states.includes("maintenance");
      fill(buttons, maintenanceButton(name, !underMaintenance), rightsNote("maintenance"));
    }
    fill(use, meters(node));
    const limits = Object.entries(node.thresholds ?? {}).filter(([, limit]) => limit < 100).map(([name, limit]) => `${word("metric", name)} ${percent(limit)}`);
    fill(pool, node.pool ? badge(t("node.pool", { pool: node.pool })) : null, el("span", { class: "dim", text: t("node.thresholds", { thresholds: limits.join(", ") }) }),
      (node.over ?? []).map((name) => badge(t("node.over", { resource: word("metric", name) }), "bad")));
    fill(trouble, warnings(node.problem ? [node.problem] : []));
    pods.show(node.pods);
    const labels = Object.entries(node.labels).sort(([a], [b]) => a.localeCompare(b));
    fill(marks, card(t("node.marks"), null,
      el("p", {}, el("span", { class: "dim", text: `${t("node.taints")} ` }), node.taints.length > 0 ? node.taints.map((taint) => el("code", { class: "mark", text: taint })) : t("node.noTaints")),
      el("details", { class: "story", open: marks.querySelector("details")?.open }, el("summary", { text: t("node.labels", { count: labels.length }) }),
        el("ul", { class: "marks" }, labels.map(([key, value]) => el("li", {}, el("code", { class: "mark", text: `${key}=${value}` })))))));
    root.dataset.loaded = "true";
  };

  const load = async () => {
    try {
      const node = await read(`nodes/${path(name)}`, signal);
      const now = JSON.stringify(node);
      if (now !== shown) render(node);
      shown = now;
      problem.replaceChildren();
      content.hidden = false;
    } catch (error) {
      if (error.name === "AbortError") return;
      content.hidden = true;
      failed(problem, error, load);
    }
  };

  const update = () => {
    const here = migrationsInOrder().filter((row) => isUnderWay(row) && (row.source === name || row.target === name));
    movesCard.hidden = here.length === 0;
    keyed(moves, here, migrationKey, (row) => migrationRow(row, true));
  };
  // Its row in the columns says when there is something new; at most one read every two seconds.
  let due = 0;
  on("nodes", (rows) => {
    if (rows !== null && !rows.has(known.index.get(name))) return;
    if (!due) due = window.setTimeout(() => { due = 0; if (!signal.aborted) load(); }, RENEW);
  }, signal);
  on("migrations", update, signal);
  update();
  load();
  return root;
}

// CPU, memory and pods, and whatever else of it has a threshold.
function meters({ used, allocatable, thresholds = {}, ...node }) {
  const texts = { cpu: cores, memory: bytes };
  return Object.keys(allocatable).filter((name) => name in texts || name === "pods" || allocatable[name] > 0).map((name) => {
    const text = texts[name] ?? number;
    const share = node[name] ?? NaN;
    const part = Number.isFinite(share) ? share : allocatable[name] > 0 ? (100 * used[name]) / allocatable[name] : NaN;
    return meter(word("metric", name), part, thresholds[name] ?? null, usedOf(name, text(used[name]), text(allocatable[name])));
  });
}

// What was measured of a pod: CPU and memory, as far as either was.
function measured({ usage }) {
  const told = [usage?.cpu === undefined ? null : cores(usage.cpu), usage?.memory === undefined ? null : bytes(usage.memory)];
  return told.filter(Boolean).join(" · ") || "–";
}

function podTable() {
  const byUse = (known.overview?.use?.by ?? "requests") !== "requests";
  const free = (pod) => (pod.guard ? el("div", {}, named("guard", pod.guard), el("p", { class: "dim", text: pod.why })) : badge(t("node.movable"), "good"));
  return pagedTable({
    caption: t("node.pods"),
    keyOf: (pod) => `${pod.namespace}/${pod.name}`,
    data: (pod) => ({ pod: `${pod.namespace}/${pod.name}` }),
    sort: ["cpu", true],
    empty: t("node.noPods"),
    columns: [
      { key: "name", label: t("table.pod"), head: true, value: (pod) => `${pod.namespace}/${pod.name}`, cell: (pod) => podLink(pod.namespace, pod.name) },
      { key: "workload", label: t("table.workload"), value: (pod) => pod.workload, cell: (pod) => pod.workload },
      { key: "cpu", label: t("metric.cpu"), numeric: true, value: (pod) => pod.cpu, cell: (pod) => cores(pod.cpu) },
      { key: "memory", label: t("metric.memory"), numeric: true, value: (pod) => pod.memory, cell: (pod) => bytes(pod.memory) },
      ...(byUse ? [{ key: "usage", label: t("node.measured"), numeric: true, value: (pod) => pod.usage?.cpu ?? -1, cell: measured }] : []),
      { key: "phase", label: t("table.phase"), value: (pod) => pod.phase, cell: (pod) => badge(pod.ready ? t("node.ready") : pod.phase, pod.ready ? "" : "warn") },
      { key: "created", label: t("table.age"), value: (pod) => pod.created ?? 0, short: true, cell: (pod) => (pod.created ? ticking(pod.created) : "–") },
      { key: "guard", label: t("table.movable"), wide: true, value: (pod) => pod.guard, cell: free },
    ],
  });
}
