// Long lists, a page at a time: a list of elements or a sortable table, with a pager below. Only the rows of the page are
// in the document, so a thousand rejections cost as little as twenty; what does not change keeps its element.

import { el, fill, keyed } from "./dom.js";
import { number, t } from "./i18n.js";

/**
 * A paged list. `container` holds the rows, `keyOf(item)` tells them apart, `build(item)` makes one, `size` is a page.
 * Returns {element, show(items)}.
 */
export function pagedList({ container, keyOf, build, size = 25, empty = "", wrap = container }) {
  const nothing = el("p", { class: "empty", text: empty, hidden: true });
  const pager = el("div", { class: "pager", role: "group", aria: { label: t("pager.label") } });
  let page = 0;
  let all = [];
  const render = () => {
    const pages = Math.max(1, Math.ceil(all.length / size));
    page = Math.min(page, pages - 1);
    keyed(container, all.slice(page * size, (page + 1) * size), keyOf, build);
    nothing.hidden = all.length > 0 || !empty;
    wrap.hidden = all.length === 0;
    pager.hidden = pages < 2;
    if (pages < 2) return;
    const [from, to] = [page * size + 1, Math.min(all.length, (page + 1) * size)];
    said.textContent = t("pager.range", { from: number(from), to: number(to), all: number(all.length) });
    back.disabled = page === 0;
    forth.disabled = page === pages - 1;
  };
  const turn = (by) => () => {
    page += by;
    render();
    wrap.scrollIntoView({ block: "nearest" });
  };
  const said = el("span", { class: "pager-range", aria: { live: "polite" } });
  const back = el("button", { type: "button", class: "button small", text: t("pager.back"), on: { click: turn(-1) } });
  const forth = el("button", { type: "button", class: "button small", text: t("pager.forth"), on: { click: turn(1) } });
  fill(pager, back, said, forth);
  return {
    element: el("div", { class: "paged" }, wrap, nothing, pager),
    show: (items, fromStart = false) => {
      all = items;
      if (fromStart) page = 0;
      render();
    },
  };
}

/**
 * A paged table. Columns: {key, label, cell(item), value(item) to sort by, numeric, wide, short}. `data(item)` are the row's
 * data-… hooks; `sort` is [key, down]. Returns {element, show(items)}.
 */
export function pagedTable({ caption, columns, keyOf, data, sort, size = 25, empty = "" }) {
  const body = el("tbody");
  const heads = new Map();
  let [sortKey, down] = sort;
  let all = [];
  const order = () => {
    const value = columns.find((column) => column.key === sortKey).value;
    const sign = down ? -1 : 1;
    return [...all].sort((a, b) => sign * compare(value(a), value(b)));
  };
  const choose = (key, numeric) => () => {
    if (sortKey === key) down = !down;
    else [sortKey, down] = [key, Boolean(numeric)];
    mark();
    list.show(order(), true);
  };
  const mark = () => {
    for (const [key, head] of heads) {
      head.setAttribute("aria-sort", key !== sortKey ? "none" : down ? "descending" : "ascending");
    }
  };
  const heading = (column) => {
    const sorter = el("button", { type: "button", class: "sorter", text: column.label, on: { click: choose(column.key, column.numeric) } });
    const head = el("th", { scope: "col", class: column.numeric ? "numeric" : "" }, column.value ? sorter : column.label);
    if (column.value) heads.set(column.key, head);
    return head;
  };
  const build = (item) =>
    el("tr", { data: data(item) }, columns.map((column) => cellOf(column, item)));
  const table = el("table", {}, el("caption", { class: "unseen", text: caption }), el("thead", {}, el("tr", {}, columns.map(heading))), body);
  const wrap = el("div", { class: "table-wrap", tabindex: "0", role: "region", aria: { label: caption } }, table);
  const list = pagedList({ container: body, keyOf, build, size, empty, wrap });
  mark();
  return {
    element: list.element,
    show: (items, fromStart = false) => {
      all = items;
      list.show(order(), fromStart);
    },
  };
}

function cellOf(column, item) {
  const content = column.cell(item);
  const look = ["numeric", "wide", "short"].filter((name) => column[name]).join(" ");
  const cell = el(column.head ? "th" : "td", { class: look || null }, content);
  if (column.head) cell.setAttribute("scope", "row");
  return cell;
}

function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), undefined, { numeric: true });
}
