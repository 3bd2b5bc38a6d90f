// What the plan does not move, and why: rejections by guard, as chips that filter, with a text filter and pages.

import { el, fill } from "./dom.js";
import { number, t } from "./i18n.js";
import { pagedTable } from "./paging.js";
import { caption, card, named, nodeLink, podLink } from "./pieces.js";

/** The card: {element, show(rejections, counted, fromStart)}; `counted`: {total, byGuard}, where the list is only the first. */
export function rejections() {
  const chips = el("div", { class: "chips", role: "group", aria: { label: t("rejections.byGuard") } });
  const filter = el("input", { type: "search", id: "rejection-filter", class: "filter", placeholder: t("rejections.filter"), aria: { label: t("rejections.filter") } });
  const count = el("span", { class: "count" });
  const more = el("p", { class: "dim" });
  const table = pagedTable({
    caption: t("rejections.title"),
    keyOf: (item) => `${item.namespace}/${item.pod}/${item.guard}`,
    data: (item) => ({ rejection: `${item.namespace}/${item.pod}`, by: item.guard }),
    sort: ["pod", false],
    empty: t("rejections.none"),
    columns: [
      { key: "pod", label: t("table.pod"), head: true, value: (item) => `${item.namespace}/${item.pod}`, cell: (item) => podLink(item.namespace, item.pod) },
      { key: "guard", label: t("table.guard"), value: (item) => item.guard, cell: (item) => named("guard", item.guard) },
      { key: "reason", label: t("table.reason"), wide: true, value: (item) => item.reason, cell: (item) => item.reason },
      { key: "node", label: t("table.node"), value: (item) => item.node, cell: (item) => nodeLink(item.node) },
      { key: "strategy", label: t("table.strategy"), value: (item) => item.strategy, cell: (item) => item.strategy },
    ],
  });
  let all = [];
  let guard = "";

  const apply = (fromStart) => {
    const text = filter.value.trim().toLowerCase();
    const fits = (item) =>
      (!guard || item.guard === guard) &&
      (!text || `${item.namespace}/${item.pod} ${item.node} ${item.reason} ${item.guard}`.toLowerCase().includes(text));
    const shown = all.filter(fits);
    count.textContent = shown.length === all.length ? number(all.length) : t("rejections.some", { shown: shown.length, all: all.length });
    table.show(shown, fromStart);
  };
  const choose = (name) => () => {
    guard = guard === name ? "" : name;
    for (const chip of chips.children) chip.setAttribute("aria-pressed", String(chip.dataset.guard === guard));
    apply(true);
  };
  filter.addEventListener("input", () => apply(true));

  const show = (list, counted, fromStart) => {
    all = list;
    const counts = new Map(Object.entries(counted?.byGuard ?? {}));
    if (counts.size === 0) for (const item of list) counts.set(item.guard, (counts.get(item.guard) ?? 0) + 1);
    const rest = (counted?.total ?? list.length) - list.length;
    more.textContent = rest > 0 ? t("rejections.more", { count: rest }) : "";
    if (!counts.has(guard)) guard = "";
    const chip = ([name, found]) =>
      el("button", { type: "button", class: "chip", title: name, data: { guard: name }, aria: { pressed: String(name === guard) }, on: { click: choose(name) } },
        caption("guard", name), el("b", { text: number(found) }));
    fill(chips, [...counts].sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0])).map(chip));
    filter.hidden = list.length < 6;
    apply(fromStart);
  };
  return { element: card(t("rejections.title"), count, el("div", { class: "filters" }, chips, filter), table.element, more), show };
}
