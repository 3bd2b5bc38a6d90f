// How nodes are read from the columns: the value of a metric, thresholds, states as words, groups by zone or pool.

import { t, word } from "./i18n.js";
import { known } from "./store.js";

/** The bits of a node's state, as the API gives them. */
export const STATE = { notReady: 1, cordoned: 2, maintenance: 4, controlPlane: 8, deleting: 16, source: 32, target: 64 };

/** A node's use by a metric, in per cent; pods in per cent of those that it can hold. */
export function useOf(nodes, metric, index) {
  if (metric === "cpu") return nodes.cpu[index];
  if (metric === "memory") return nodes.memory[index];
  const room = nodes.podRoom[index];
  return room > 0 ? (100 * nodes.pods[index]) / room : NaN;
}

/** Above what a node is hot by a metric. Pods have no threshold: a node that is full is. */
export function thresholdOf(metric) {
  const thresholds = known.overview?.thresholds ?? { cpu: 80, memory: 80 };
  return metric === "pods" ? 99 : thresholds[metric];
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
