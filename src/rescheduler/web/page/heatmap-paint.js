// Draws the heat map's cells on a canvas, one by one, so that a live update costs what changed and nothing more. Texts go
// on a canvas of their own, which lies over the arcs.
// The legend draws its samples with the same function: what it shows is what is meant.

import { percent, word } from "./i18n.js";
import { STATE } from "./nodes.js";

/** Cells of this size have room for texts. */
export const LABELLED = 58;
const MARKED = 6;
const ROUNDED = 12;
const HOT_MARK = "#0d1720"; // hot colours are all bright enough for it, in both themes

/** Draws one cell: {x, y, size}, its use in per cent, its state, its name; `colours` from colours.js. Texts go to `over`. */
export function paintCell(context, { x, y, size }, { use, state, name }, colours, over = null) {
  const corner = size >= 40 ? 8 : size >= 14 ? 3 : 1.5;
  context.clearRect(x - 0.5, y - 0.5, size + 1, size + 1);
  const away = Boolean(state & STATE.notReady);
  context.globalAlpha = state & STATE.deleting ? 0.4 : 1;
  const ground = away ? colours.unknown : colours.at(use);
  context.fillStyle = ground;
  if (size < ROUNDED) context.fillRect(x, y, size, size); // thousands of them: the plain form is many times faster
  else {
    shape(context, x, y, size, corner);
    context.fill();
  }
  const ink = away ? colours.ink : colours.onto(use);
  if (state & (STATE.cordoned | STATE.maintenance)) stripes(context, { x, y, size, corner }, ink);
  if (away && size >= MARKED) crossed(context, x, y, size, ink);
  if (state & STATE.controlPlane) frame(context, { x, y, size, corner }, ink, [2, 2]);
  if (state & STATE.maintenance) frame(context, { x, y, size, corner }, colours.mark, []);
  if (!away && use > colours.threshold && size >= MARKED) hotCorner(context, x, y, size);
  if (state & STATE.source) arrow(context, x, y, size, ink, -1);
  if (state & STATE.target) arrow(context, x, y, size, ink, 1);
  if (over) {
    over.globalAlpha = context.globalAlpha;
    const rim = state & STATE.deleting ? "transparent" : ground; // one that is faded, too, would show on a faded cell
    labels(over, { x, y, size }, { use, name, away }, { ink, rim });
    over.globalAlpha = 1;
  }
  context.globalAlpha = 1;
}

function shape(context, x, y, size, corner) {
  context.beginPath();
  context.roundRect(x, y, size, size, corner);
}

function stripes(context, { x, y, size, corner }, ink) {
  context.save();
  shape(context, x, y, size, corner);
  context.clip();
  context.strokeStyle = ink;
  context.globalAlpha *= size >= LABELLED ? 0.16 : 0.42;
  const pitch = size >= 40 ? 10 : size >= 16 ? 6 : 4;
  context.lineWidth = size >= 40 ? 4 : 1.2;
  context.beginPath();
  for (let at = -size; at < size; at += pitch) {
    context.moveTo(x + at, y + size);
    context.lineTo(x + at + size, y);
  }
  context.stroke();
  context.restore();
}

function crossed(context, x, y, size, ink) {
  const { across, down, reach } = spot(x, y, size);
  const half = size >= LABELLED ? reach * 0.9 : size * 0.26;
  context.strokeStyle = ink;
  context.lineWidth = size >= LABELLED ? 2.4 : Math.max(1.2, size / 14);
  context.beginPath();
  context.moveTo(across - half, down - half);
  context.lineTo(across + half, down + half);
  context.moveTo(across + half, down - half);
  context.lineTo(across - half, down + half);
  context.stroke();
}

function frame(context, { x, y, size, corner }, ink, dash) {
  const width = size >= 40 ? 2.5 : size >= 12 ? 1.6 : 1.2;
  context.strokeStyle = ink;
  context.lineWidth = width;
  context.setLineDash(dash);
  shape(context, x + width / 2, y + width / 2, size - width, Math.max(1, corner - width / 2));
  context.stroke();
  context.setLineDash([]);
}

function hotCorner(context, x, y, size) {
  const leg = size >= 40 ? 12 : Math.max(3, size * 0.38);
  context.fillStyle = HOT_MARK;
  if (size < ROUNDED) {
    context.fillRect(x + size - leg, y, leg, leg);
    return;
  }
  context.save();
  shape(context, x, y, size, size >= 40 ? 8 : 3);
  context.clip();
  context.beginPath();
  context.moveTo(x + size - leg, y);
  context.lineTo(x + size, y);
  context.lineTo(x + size, y + leg);
  context.fill();
  context.restore();
}

// Up and out of a source, down and into a target.
function arrow(context, x, y, size, ink, way) {
  const { across, down, reach } = spot(x, y, size);
  context.fillStyle = ink;
  context.beginPath();
  context.moveTo(across - reach, down - way * reach * 0.6);
  context.lineTo(across + reach, down - way * reach * 0.6);
  context.lineTo(across, down + way * reach * 0.8);
  context.fill();
}

// Where a cell's mark stands, and how far it reaches: in the corner that texts leave free, else in the middle.
function spot(x, y, size) {
  if (size < LABELLED) return { across: x + size / 2, down: y + size / 2, reach: size >= 40 ? 7 : size * 0.3 };
  const [aside, reach] = size >= 90 ? [18, 7] : [10, 5];
  return { across: x + size - aside, down: y + size - aside, reach };
}

function labels(context, { x, y, size }, { use, name, away }, { ink, rim }) {
  context.clearRect(x, y, size, size);
  context.fillStyle = ink;
  context.strokeStyle = rim;
  context.font = `600 ${away ? 12 : size >= 90 ? 20 : 16}px system-ui, sans-serif`;
  write(context, away ? word("state", "notReady") : percent(use), x + 9, y + (size >= 90 ? 50 : 45), { widest: size - 16 });
  context.font = "11.5px system-ui, sans-serif";
  write(context, shortened(context, name, size - 20), x + 9, y + 21, { widest: size - 16, alpha: 0.86 });
}

/** Writes a text with a rim in the colour of strokes, so that an arc that passes behind does not run into its letters. */
export function write(context, text, x, y, { widest, alpha = 1 }) {
  context.lineWidth = 5;
  context.lineJoin = "round";
  context.textBaseline = "alphabetic";
  context.strokeText(text, x, y, widest);
  const before = context.globalAlpha;
  context.globalAlpha *= alpha;
  context.fillText(text, x, y, widest);
  context.globalAlpha = before;
}

// The end of a node's name says more than its beginning.
function shortened(context, name, width) {
  if (context.measureText(name).width <= width) return name;
  let kept = name;
  while (kept.length > 3 && context.measureText(`…${kept}`).width > width) kept = kept.slice(1);
  return `…${kept}`;
}
