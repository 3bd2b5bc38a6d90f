// The nodes for a pod: feasible ones with their usage afterwards; the others, grouped by the predicate that refuses them.

import { el } from "./dom.js";
import { number, percent, t } from "./i18n.js";
import { pagedList, pagedTable } from "./paging.js";
import { badge, card, fold, named, nodeLink } from "./pieces.js";

const NODES_SHOWN = 60;
const opened = new Set(); // groups stay open when the explanation is renewed

export function verdicts(pod) {
  const feasible = pod.nodes.filter((node) => node.feasible);
  const table = pagedTable({
    caption: t("verdicts.could"),
    keyOf: (node) => node.node,
    data: ({ node }) => ({ verdict: node }),
    sort: ["cpu", false],
    size: 10,
    empty: t("verdicts.nobody"),
    columns: [
      { key: "node", label: t("table.node"), head: true, value: (node) => node.node, cell: (node) => nodeLink(node.node) },
      { key: "cpu", label: t("verdicts.cpu"), numeric: true, value: (node) => node.cpu, cell: (node) => bar(node.cpu) },
      { key: "memory", label: t("verdicts.memory"), numeric: true, value: (node) => node.memory, cell: (node) => bar(node.memory) },
    ],
  });
  table.show(feasible, true);
  const groups = pagedList({
    container: el("div", { class: "refusals" }),
    keyOf: (refusal) => `${refusal.predicate} ${refusal.reason}`,
    build: group,
    size: 12,
    empty: t("verdicts.allCould"),
  });
  groups.show(pod.refusals, true);
  return card(t("verdicts.title"), null,
    el("h3", {}, t("verdicts.could"), " ", badge(number(feasible.length), feasible.length > 0 ? "good" : "")), table.element,
    el("h3", {}, t("verdicts.refuse"), " ", badge(number(pod.nodes.length - feasible.length))), groups.element);
}

function bar(value) {
  const inner = el("span");
  inner.style.width = `${Math.max(0, Math.min(100, value))}%`;
  return el("span", { class: "cell-bar" }, el("span", { class: "cell-track", aria: { hidden: "true" } }, inner), percent(value, 1));
}

// The names come into the document when the group is opened: there may be thousands.
function group(refusal) {
  const details = el("details", { class: "refusal", data: { predicate: refusal.predicate } },
    el("summary", {}, badge(number(refusal.nodes.length)), named("predicate", refusal.predicate), el("span", { class: "dim", text: refusal.reason })));
  const key = `${refusal.predicate} ${refusal.reason}`;
  return fold(details, opened, key, () => {
    const rest = refusal.nodes.length - NODES_SHOWN;
    details.append(el("ul", { class: "names" }, refusal.nodes.slice(0, NODES_SHOWN).map((name) => el("li", {}, nodeLink(name)))));
    if (rest > 0) details.append(el("p", { class: "dim", text: t("list.more", { count: rest }) }));
  });
}
