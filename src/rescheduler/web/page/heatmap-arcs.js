// Arcs over the heat map, from the source to the target of each move under way: one sees where the pods go.
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
  const [[x1, y1], [x2, y2]] = [end(from), end(to)];
  const reach = Math.hypot(x2 - x1, y2 - y1);
  const [middleX, middleY] = [(x1 + x2) / 2, (y1 + y2) / 2 - Math.min(60, reach * 0.25)];
  return svg(
    "g",
    { class: "arc", data: { arc: `${row.namespace}/${row.name}` } },
    svg("path", { class: "arc-back", d: `M${x1} ${y1} Q${middleX} ${middleY} ${x2} ${y2}` }),
    svg("path", { class: "arc-line", d: `M${x1} ${y1} Q${middleX} ${middleY} ${x2} ${y2}` }),
    svg("circle", { class: "arc-start", cx: x1, cy: y1, r: Math.min(6, Math.max(2, from.size / 6)) }),
    head([middleX, middleY], [x2, y2], Math.min(15, Math.max(5, to.size / 3))),
  );
}

// The head of an arrow that comes from a point, with its tip a little beyond the end.
function head([fromX, fromY], [x, y], size) {
  const angle = (Math.atan2(y - fromY, x - fromX) * 180) / Math.PI;
  const d = `M${size * 0.6} 0 L${-size * 0.4} ${-size * 0.45} L${-size * 0.15} 0 L${-size * 0.4} ${size * 0.45} Z`;
  return svg("path", { class: "arc-end", d, transform: `translate(${x} ${y}) rotate(${angle})` });
}

// The middle of a cell; of a large one, the corner that carries no text.
function end({ x, y, size }) {
  return size >= 58 ? [x + size - 18, y + size - 18] : [x + size / 2, y + size / 2];
}

/** A sample of an arc, for the legend. */
export function arcSample() {
  return el("span", { class: "sample" }, svg("svg", { class: "arcs still", width: 28, height: 18, aria: { hidden: "true" } },
    svg("path", { class: "arc-line", d: "M4 14 Q14 0 23 11" }), svg("circle", { class: "arc-start", cx: 4, cy: 14, r: 2.5 }),
    head([14, 0], [23, 11], 9)));
}
