// The page's few icons: strokes on a 24 by 24 field, in the colour of the text around them, hidden from screen readers.

import { svg } from "./dom.js";

const PATHS = {
  heatmap: ["M4 4h6v6H4z", "M14 4h6v6h-6z", "M4 14h6v6H4z", "M14 14h6v6h-6z"],
  plan: ["M9 6h11", "M9 12h11", "M9 18h11", "M4 6l1 1 2-2", "M4 12l1 1 2-2", "M4 18l1 1 2-2"],
  migrations: ["M4 8h14l-3-3", "M20 16H6l3 3"],
  outcomes: ["M4 19V5", "M4 19h16", "M7 15l4-5 3 3 5-7"],
  config: ["M4 7h10", "M18 7h2", "M4 17h2", "M10 17h10", "M16 5v4", "M8 15v4"],
  health: ["M3 12h4l2-6 4 12 2-6h6"],
  search: ["M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14z", "M16.5 16.5L21 21"],
  pause: ["M8 5v14", "M16 5v14"],
  resume: ["M7 5l12 7-12 7z"],
  arrow: ["M4 12h15", "M13 6l6 6-6 6"],
  check: ["M5 12l5 5 9-10"],
  cross: ["M6 6l12 12", "M18 6L6 18"],
  warning: ["M12 4l9 16H3z", "M12 10v4", "M12 17v.4"],
  person: ["M12 4a4 4 0 1 0 0 8 4 4 0 0 0 0-8z", "M4 21c1-4 4-6 8-6s7 2 8 6"],
  wrench: ["M14 7a4 4 0 0 1 5.5-3.7L17 6l1 1 2.700-2.500A4 4 0 0 1 15 10L7 18a2 2 0 0 1-3-3z"],
  copy: ["M9 9h11v11H9z", "M15 5H4v11"],
  link: ["M10 14a4 4 0 0 0 6 0l3-3a4 4 0 0 0-6-6l-1 1", "M14 10a4 4 0 0 0-6 0l-3 3a4 4 0 0 0 6 6l1-1"],
};

export function icon(name) {
  return svg(
    "svg",
    { class: "icon", viewBox: "0 0 24 24", aria: { hidden: "true" }, focusable: "false" },
    PATHS[name].map((d) => svg("path", { d })),
  );
}
