// Draws the heat map's cells on a canvas, one by one, so that a live update costs what changed and nothing more.
// The legend draws its samples with the same function: what it shows is what is meant.

import { percent, word } from "./i18n.js";
import { STATE } from "./nodes.js";

const LABELLED = 58;
const MARKED = 6;
const ROUNDED = 12;
const HOT_MARK = "#0d1720"; // hot colours are all bright enough for it, in both themes

/** Draws one cell: {x, y, size}, its use in per cent, its state, its name; `colours` from colours.js. */
export function paintCell(context, { x, y, size }, { use, state, name }, colours) {
  const corner = size >= 40 ? 8 : size >= 14 ? 3 : 1.5;
  context.clearRect(x - 0.5, y - 0.5, size + 1, size + 1);
  const away = Boolean(state & STATE.notReady);
  context.globalAlpha = state & STATE.deleting ? 0.4 : 1;
  context.fillStyle = away ? colours.unknown : colours.at(use);
  if (size < ROUNDED) context.fillRect(x, y, size, size); // thousands of them: the plain form is many times faster
  else {
    shape(context, x, y, size, corner);
    context.fill();
  }
  const ink = away ? colours.ink : colours.onto(use);
  if (state & (STATE.cordoned | STATE.maintenance)) stripes(context, { x, y, size, corner }, ink);
  if (away && size >= MARKED) crossed(context, x, y, size, ink, size >= LABELLED);
  if (state & STATE.controlPlane) frame(context, { x, y, size, corner }, ink, [2, 2]);
  if (state & STATE.maintenance) frame(context, { x, y, size, corner }, colours.mark, []);
  if (!away && use > colours.threshold && size >= MARKED) hotCorner(context, x, y, size);
  if (state & STATE.source) arrow(context, x, y, size, ink, -1);
  if (state & STATE.target) arrow(context, x, y, size, ink, 1);
  if (size >= LABELLED && name) labels(context, { x, y, size }, { use, name, away }, ink);
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

function crossed(context, x, y, size, ink, labelled) {
  const reach = labelled ? 6 : size * 0.26;
  const [middleX, middleY] = labelled ? [x + size - 17, y + size - 17] : [x + size / 2, y + size / 2];
  context.strokeStyle = ink;
  context.lineWidth = labelled ? 2.4 : Math.max(1.2, size / 14);
  context.beginPath();
  context.moveTo(middleX - reach, middleY - reach);
  context.lineTo(middleX + reach, middleY + reach);
  context.moveTo(middleX + reach, middleY - reach);
  context.lineTo(middleX - reach, middleY + reach);
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
  const half = size >= 40 ? 7 : size * 0.3;
  const middle = x + (size >= LABELLED ? size - 18 : size / 2);
  const level = y + (size >= LABELLED ? size - 18 : size / 2);
  context.fillStyle = ink;
  context.beginPath();
  context.moveTo(middle - half, level - way * half * 0.6);
  context.lineTo(middle + half, level - way * half * 0.6);
  context.lineTo(middle, level + way * half * 0.8);
  context.fill();
}

function labels(context, { x, y, size }, { use, name, away }, ink) {
  context.fillStyle = ink;
  context.textBaseline = "alphabetic";
  context.font = `600 ${away ? 12 : size >= 90 ? 20 : 16}px system-ui, sans-serif`;
  context.fillText(away ? word("state", "notReady") : percent(use), x + 9, y + (size >= 90 ? 50 : 45), size - 16);
  context.globalAlpha *= 0.86;
  context.font = "11.5px system-ui, sans-serif";
  context.fillText(shortened(context, name, size - 20), x + 9, y + 21);
}

// The end of a node's name says more than its beginning.
function shortened(context, name, width) {
  if (context.measureText(name).width <= width) return name;
  let kept = name;
  while (kept.length > 3 && context.measureText(`…${kept}`).width > width) kept = kept.slice(1);
  return `…${kept}`;
}
