// How nodes are read from the columns: the value of a metric, thresholds by pool, states as words, groups by zone or pool.

import { t, word } from "./i18n.js";
import { known } from "./store.js";

/** The bits of a node's state, as the API gives them. */
export const STATE = { notReady: 1, cordoned: 2, maintenance: 4, controlPlane: 8, deleting: 16, source: 32, target: 64 };

/** A node's use by a metric, in per cent; pods in per cent of those that it can hold; NaN where it has none of it. */
export function useOf(nodes, metric, index) {
  if (metric === "cpu") return nodes.cpu[index];
  if (metric === "memory") return nodes.memory[index];
  if (metric !== "pods") return othersOf(nodes, index)[metric] ?? NaN;
  const room = nodes.podRoom[index];
  return room > 0 ? (100 * nodes.pods[index]) / room : NaN;
}

/** A node's use of other resources with a threshold, in per cent, by their names; null where it has none. */
export function othersOf(nodes, index) {
  return Object.fromEntries((nodes.resources ?? []).map((name, row) => [name, nodes.others[row][index]]));
}

/**
 * Above what nodes are hot by a metric: those of no pool, then those of each pool of the configuration. Where pods have
 * no threshold, a node that is full is.
 */
export function thresholdsOf(metric) {
  const { thresholds = { cpu: 80, memory: 80 }, rules = [thresholds] } = known.overview ?? {};
  return rules.map((rule) => rule[metric] ?? (metric === "pods" ? 99 : 100));
}

/** Which of them a node goes by. */
export function ruleOf(nodes, index) {
  return nodes.rule?.[index] ?? 0;
}

/** The words for a state's bits. */
export function stateWords(state) {
  return Object.entries(STATE)
    .filter(([, bit]) => state & bit)
    .map(([name]) => word("state", name));
}

/** The nodes in groups [{label, members}], by name; flat is one group without a label. */
export function grouped(nodes, group) {
  if (group === "flat") return [{ label: "", members: nodes.names.map((_, index) => index) }];
  const [column, labels] = group === "zone" ? [nodes.zone, nodes.zones] : [nodes.pool, nodes.pools];
  const groups = new Map();
  column.forEach((label, index) => {
    if (!groups.has(label)) groups.set(label, []);
    groups.get(label).push(index);
  });
  const nameless = group === "zone" ? t("heatmap.noZone") : t("heatmap.noPool");
  return [...groups]
    .map(([label, members]) => ({ label: labels[label] || nameless, named: Boolean(labels[label]), members }))
    .sort((a, b) => Number(b.named) - Number(a.named) || a.label.localeCompare(b.label, undefined, { numeric: true }));
}
