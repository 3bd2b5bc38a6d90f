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
    svg("circle", { class: "arc-end", cx: x2, cy: y2, r: Math.min(5, Math.max(2.5, to.size / 5)) }),
  );
}

// The middle of a cell; of a large one, the corner that carries no text.
function end({ x, y, size }) {
  return size >= 58 ? [x + size - 18, y + size - 18] : [x + size / 2, y + size / 2];
}

/** A sample of an arc, for the legend. */
export function arcSample() {
  return el("span", { class: "sample" }, svg("svg", { class: "arcs still", width: 28, height: 18, aria: { hidden: "true" } },
    svg("path", { class: "arc-line", d: "M3 14 Q14 0 25 12" }), svg("circle", { class: "arc-end", cx: 25, cy: 12, r: 3 })));
}
