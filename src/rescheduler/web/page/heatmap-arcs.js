// Arcs over the heat map, from the source to the target of each move under way: one sees where the pods go. They begin and
// end at the edges of cells, where there are no texts, and pass behind the texts of the cells between.
// Many at once would hide the map, so only the newest are drawn.

import { el, fill, svg } from "./dom.js";
import { known } from "./store.js";

const MOST = 40;

/** The layer: `draw(layout, width)` renews it. */
export function arcs() {
  const element = svg("svg", { class: "arcs", aria: { hidden: "true" } });
  const draw = (layout, width) => {
    element.setAttribute("width", String(width));
    element.setAttribute("height", String(layout.height));
    const moving = [...known.migrations.values()].filter((row) => row.phase === "InProgress" && row.source && row.target);
    fill(element, moving.slice(0, MOST).map((row) => arc(layout, row)));
  };
  return { element, draw };
}

function arc(layout, row) {
  const [from, to] = [row.source, row.target].map((name) => layout.place(known.index.get(name)));
  if (!from || !to) return null;
  const [[x1, y1], [x2, y2]] = [middle(from), middle(to)];
  const bow = Math.min(60 / Math.hypot(x2 - x1, y2 - y1), 0.25); // to its left, so that there and back are two arcs
  const bend = [(x1 + x2) / 2 + (y2 - y1) * bow, (y1 + y2) / 2 - (x2 - x1) * bow];
  const dot = Math.min(4, Math.max(2, from.size / 12));
  const [start, end] = [edge(from, bend, dot), edge(to, bend, 0)];
  const d = `M${start.join(" ")} Q${bend.join(" ")} ${end.join(" ")}`;
  return svg(
    "g",
    { class: "arc", data: { arc: `${row.namespace}/${row.name}` } },
    svg("path", { class: "arc-back", d }),
    svg("path", { class: "arc-line", d }),
    svg("circle", { class: "arc-start", cx: start[0], cy: start[1], r: dot }),
    head(bend, end, Math.min(13, Math.max(5, to.size / 3))),
  );
}

// The head of an arrow that comes from a point, with its tip a little beyond the end.
function head([fromX, fromY], [x, y], size) {
  const angle = (Math.atan2(y - fromY, x - fromX) * 180) / Math.PI;
  const d = `M${size * 0.6} 0 L${-size * 0.4} ${-size * 0.45} L${-size * 0.15} 0 L${-size * 0.4} ${size * 0.45} Z`;
  return svg("path", { class: "arc-end", d, transform: `translate(${x} ${y}) rotate(${angle})` });
}

function middle({ x, y, size }) {
  return [x + size / 2, y + size / 2];
}

// Where a line from the middle of a cell to a point leaves it; `within` is how far before that.
function edge(cell, [toX, toY], within) {
  const [x, y] = middle(cell);
  const part = (cell.size / 2 - within) / Math.max(Math.abs(toX - x), Math.abs(toY - y), 1);
  return [x + (toX - x) * part, y + (toY - y) * part];
}

/** A sample of an arc, for the legend. */
export function arcSample() {
  return el("span", { class: "sample" }, svg("svg", { class: "arcs still", width: 28, height: 18, aria: { hidden: "true" } },
    svg("path", { class: "arc-line", d: "M4 14 Q14 0 23 11" }), svg("circle", { class: "arc-start", cx: 4, cy: 14, r: 2.5 }),
    head([14, 0], [23, 11], 9)));
}
