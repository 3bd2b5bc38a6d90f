// The heat map's legend: the colour scale with its threshold, and a sample of each state that the map shows now, drawn
// by the same hand as the cells.

import { scale } from "./colours.js";
import { el, fill } from "./dom.js";
import { arcSample } from "./heatmap-arcs.js";
import { paintCell } from "./heatmap-paint.js";
import { percent, t, word } from "./i18n.js";
import { STATE, thresholdsOf } from "./nodes.js";
import { onPreference, preference, shownTheme } from "./preferences.js";
import { known, on } from "./store.js";

const WIDTH = 220;
const SAMPLE = 18;

/** Makes it; it follows metric, theme and thresholds. */
export function legend(signal) {
  const element = el("div", { class: "legend" });
  let shown = "";
  const draw = () => {
    const states = present();
    const thresholds = thresholdsOf(preference("metric"));
    const now = JSON.stringify([preference("metric"), shownTheme(), thresholds, states]);
    if (now === shown) return;
    shown = now;
    const colours = scale(shownTheme(), thresholds[0]);
    const hot = hotAbove(thresholds);
    fill(element, bar(colours, hot), sampleOf(hot, colours.threshold + 6, 0, colours), states.map(([name, bit]) => sample(name, bit, colours)));
    if (states.some(([name]) => name === "target")) {
      element.append(el("span", { class: "legend-item" }, arcSample(), t("legend.arc")));
    }
  };
  draw();
  on("nodes", draw, signal);
  on("overview", draw, signal);
  onPreference(draw, signal);
  return element;
}

// Pools may have thresholds of their own; the scale is that of nodes of no pool.
function hotAbove(thresholds) {
  const [low, high] = [Math.min(...thresholds), Math.max(...thresholds)];
  return low === high ? t("legend.hot", { threshold: percent(low) }) : t("legend.hotByPool", { low: percent(low), high: percent(high) });
}

// Only states that some node is in, so that the legend stays short; the order is the bits'.
function present() {
  let all = 0;
  for (const state of known.nodes?.state ?? []) all |= state;
  return Object.entries(STATE).filter(([, bit]) => all & bit);
}

function canvasOf(width, height) {
  const ratio = window.devicePixelRatio || 1;
  const canvas = el("canvas", { width: Math.round(width * ratio), height: Math.round(height * ratio), aria: { hidden: "true" } });
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return [canvas, context];
}

function bar(colours, hot) {
  const [canvas, context] = canvasOf(WIDTH, 12);
  const top = 110;
  for (let value = 0; value < top; value += 1) {
    context.fillStyle = colours.at(value);
    context.fillRect((value * WIDTH) / top, 0, WIDTH / top + 0.6, 12);
  }
  const edge = el("span", { class: "scale-mark", text: percent(colours.threshold) });
  edge.style.left = `${(colours.threshold / top) * 100}%`;
  return el(
    "div",
    { class: "scale", role: "img", aria: { label: `${word("metric", preference("metric"))}: ${hot}` } },
    canvas,
    el("div", { class: "scale-marks" }, el("span", { text: percent(0) }), edge),
  );
}

function sample(name, bit, colours) {
  return sampleOf(word("state", name), colours.threshold * 0.45, bit, colours);
}

function sampleOf(text, use, state, colours) {
  const [canvas, context] = canvasOf(SAMPLE, SAMPLE);
  paintCell(context, { x: 0, y: 0, size: SAMPLE }, { use, state, name: "" }, colours);
  return el("span", { class: "legend-item" }, canvas, text);
}
