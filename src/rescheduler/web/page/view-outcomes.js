// What came of finished moves: workloads whose moves did not pay, or came back, rest; here is for how long, and why.

import { read } from "./api.js";
import { el } from "./dom.js";
import { points, verdictBadge } from "./gains.js";
import { number, t } from "./i18n.js";
import { pagedTable } from "./paging.js";
import { card, failed, podLink, view } from "./pieces.js";
import { known, on } from "./store.js";
import { ticking } from "./ticking.js";

const VERDICTS = ["Paid", "NotPaid", "CameBack", "Unknown"];

export function show(signal) {
  const resting = pagedTable({
    caption: t("outcomes.resting"),
    keyOf: (item) => `${item.namespace}/${item.workload}`,
    data: (item) => ({ workload: `${item.namespace}/${item.workload}` }),
    sort: ["until", true],
    empty: t("outcomes.none"),
    columns: [
      { key: "workload", label: t("table.workload"), head: true, value: (item) => `${item.namespace}/${item.workload}`,
        cell: (item) => el("span", { class: "name" }, el("span", { class: "dim", text: `${item.namespace}/` }), item.workload) },
      { key: "bad", label: t("outcomes.bad"), numeric: true, value: (item) => item.bad, cell: (item) => number(item.bad) },
      { key: "until", label: t("outcomes.until"), short: true, value: (item) => item.restsUntil ?? 0, cell: (item) => (item.restsUntil ? ticking(item.restsUntil, "until") : t("outcomes.free")) },
      { key: "why", label: t("table.reason"), wide: true, value: (item) => item.why, cell: (item) => item.why },
    ],
  });
  const judged = pagedTable({
    caption: t("outcomes.moves"),
    keyOf: (row) => `${row.namespace}/${row.name}`,
    data: (row) => ({ outcome: `${row.namespace}/${row.name}` }),
    sort: ["finished", true],
    empty: t("outcomes.noMoves"),
    columns: [
      { key: "pod", label: t("table.pod"), head: true, value: (row) => `${row.namespace}/${row.pod}`, cell: (row) => podLink(row.namespace, row.pod) },
      { key: "verdict", label: t("outcomes.verdict"), value: (row) => VERDICTS.indexOf(row.outcome.verdict), cell: (row) => verdictBadge(row.outcome.verdict) },
      { key: "predicted", label: t("outcomes.predicted"), numeric: true, value: (row) => row.outcome.predicted ?? -1e9, cell: (row) => points(row.outcome.predicted) },
      { key: "realised", label: t("outcomes.realised"), numeric: true, value: (row) => row.outcome.realised ?? -1e9, cell: (row) => points(row.outcome.realised) },
      { key: "strategy", label: t("table.strategy"), value: (row) => row.strategy, cell: (row) => row.strategy },
      { key: "finished", label: t("outcomes.finished"), short: true, value: (row) => row.finished ?? 0, cell: (row) => (row.finished ? ticking(row.finished) : "–") },
    ],
  });
  const problem = el("div");
  const root = view("outcomes", t("nav.outcomes"), el("p", { class: "lead", text: t("outcomes.about") }),
    card(t("outcomes.resting"), null, problem, resting.element), card(t("outcomes.moves"), null, judged.element));
  const load = async () => {
    try {
      resting.show((await read("outcomes", signal)).workloads);
      problem.replaceChildren();
      root.dataset.loaded = "true";
    } catch (error) {
      if (error.name !== "AbortError") failed(problem, error, load);
    }
  };
  const update = () => judged.show([...known.migrations.values()].filter((row) => row.outcome));
  on("migrations", update, signal);
  on("plan", load, signal); // once a cycle is often enough for what changes by minutes
  update();
  load();
  return root;
}
