// Spread over time: how far apart the most and the least used nodes are, for CPU or memory. Lines for max, mean and min,
// the threshold above which a node is hot, and where the maximum would have to be for the allowed imbalance.
// A sentence below says the same; pointer and arrow keys read single samples.

import { el, fill, say, svg } from "./dom.js";
import { clock, duration, number, percent, t, word } from "./i18n.js";
import { known, on } from "./store.js";

const HEIGHT = 190;
const EDGE = { top: 12, right: 44, bottom: 24, left: 38 };

/** A chart of one resource. */
export function spreadChart(resource, signal) {
  const stage = el("div", { class: "chart", tabindex: "0", role: "img", aria: { describedby: `spread-${resource}` } });
  const tip = el("div", { class: "tip", hidden: true });
  const caption = el("figcaption", { id: `spread-${resource}`, class: "chart-caption" });
  const figure = el("figure", { class: "spread", data: { spread: resource } },
    el("h3", { text: word("metric", resource) }), el("div", { class: "chart-frame" }, stage, tip), caption);
  let chart = null;
  let at = -1;

  const draw = () => {
    const samples = known.samples ?? [];
    const width = stage.clientWidth;
    if (width < 60) return;
    stage.setAttribute("aria-label", t("spread.label", { resource: word("metric", resource) }));
    if (samples.length < 2) {
      chart = null;
      fill(stage, el("p", { class: "empty", text: t("spread.early") }));
      caption.textContent = "";
      return;
    }
    chart = plot(samples, resource, width);
    fill(stage, chart.element);
    say(caption, summary(samples, resource));
    mark();
  };

  const mark = () => {
    tip.hidden = at < 0 || !chart;
    chart?.point(at);
    if (tip.hidden) return;
    const sample = known.samples[at];
    const row = (label, value) => el("div", { class: "tip-row" }, el("span", { text: label }), el("b", { text: value }));
    fill(tip, el("strong", { text: clock(sample.time) }),
      ["max", "mean", "min"].map((name) => row(word("spread.line", name), percent(sample[resource][name], 1))),
      row(t("spread.gap"), number(sample[resource].max - sample[resource].min, 1)),
      row(t("overview.hot"), number(sample.hotNodes)));
    const x = chart.x(sample.time);
    tip.style.transform = `translate(${x > stage.clientWidth / 2 ? x - tip.offsetWidth - 10 : x + 10}px, 8px)`;
  };

  stage.addEventListener("pointermove", (event) => {
    if (!chart) return;
    at = chart.nearest(event.clientX - stage.getBoundingClientRect().left);
    mark();
  });
  const leave = () => {
    at = -1;
    mark();
  };
  stage.addEventListener("pointerleave", leave);
  stage.addEventListener("blur", leave);
  stage.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by || !chart) return;
    event.preventDefault();
    const last = known.samples.length - 1;
    at = at < 0 ? last : Math.max(0, Math.min(last, at + by));
    mark();
  });
  on("samples", draw, signal);
  on("overview", () => chart && chart.limits !== limitsOf(resource).join() && draw(), signal);
  const size = new ResizeObserver(draw);
  size.observe(stage);
  signal.addEventListener("abort", () => size.disconnect());
  return figure;
}

function limitsOf(resource) {
  const thresholds = known.overview?.thresholds;
  return [thresholds?.[resource] ?? 80, thresholds?.imbalance ?? 20];
}

function plot(samples, resource, width) {
  const [threshold, allowed] = limitsOf(resource);
  const [from, to] = [samples[0].time, samples.at(-1).time];
  const top = Math.max(100, ...samples.map((sample) => sample[resource].max));
  const inner = width - EDGE.left - EDGE.right;
  const x = (time) => EDGE.left + (inner * (time - from)) / Math.max(1, to - from);
  const y = (value) => HEIGHT - EDGE.bottom - ((HEIGHT - EDGE.top - EDGE.bottom) * value) / top;
  const path = (value) => `M${samples.map((s) => `${x(s.time).toFixed(1)} ${y(value(s)).toFixed(1)}`).join("L")}`;
  const of = (name) => (sample) => sample[resource][name];
  const band = `${path(of("max"))}L${[...samples].reverse().map((s) => `${x(s.time).toFixed(1)} ${y(s[resource].min).toFixed(1)}`).join("L")}Z`;
  const level = (value) => [
    svg("line", { class: "grid", x1: EDGE.left, x2: width - EDGE.right, y1: y(value), y2: y(value) }),
    svg("text", { class: "axis", x: EDGE.left - 6, y: y(value) + 4, "text-anchor": "end", text: percent(value) }),
  ];
  const last = samples.at(-1)[resource];
  const ends = apart([["max", last.max], ["mean", last.mean], ["min", last.min]].map(([name, value]) => [name, value, y(value)]));
  const cursor = svg("line", { class: "cursor", y1: EDGE.top, y2: HEIGHT - EDGE.bottom, visibility: "hidden" });
  const element = svg("svg", { width, height: HEIGHT, aria: { hidden: "true" } },
    [0, 25, 50, 75, 100].map(level),
    svg("path", { class: "band", d: band }),
    svg("line", { class: "threshold", x1: EDGE.left, x2: width - EDGE.right, y1: y(threshold), y2: y(threshold) }),
    svg("path", { class: "allowed", d: path((s) => Math.min(top, s[resource].min + allowed)) }),
    ["min", "mean", "max"].map((name) => svg("path", { class: `line ${name}`, d: path(of(name)) })),
    ends.map(([name, value, at]) => svg("text", { class: `end ${name}`, x: width - EDGE.right + 6, y: at + 4, text: percent(value) })),
    svg("text", { class: "axis", x: EDGE.left, y: HEIGHT - 6, text: clock(from) }),
    svg("text", { class: "axis", x: width - EDGE.right, y: HEIGHT - 6, "text-anchor": "end", text: clock(to) }),
    cursor);
  return {
    element,
    x,
    limits: limitsOf(resource).join(),
    point: (index) => {
      cursor.setAttribute("visibility", index < 0 ? "hidden" : "visible");
      if (index < 0) return;
      cursor.setAttribute("x1", x(samples[index].time));
      cursor.setAttribute("x2", x(samples[index].time));
    },
    nearest: (pixels) => {
      const time = from + ((pixels - EDGE.left) / inner) * (to - from);
      let best = 0;
      samples.forEach((s, index) => {
        if (Math.abs(s.time - time) < Math.abs(samples[best].time - time)) best = index;
      });
      return best;
    },
  };
}

// Labels at the lines' ends are moved apart where lines meet.
function apart(ends) {
  for (let at = 1; at < ends.length; at += 1) ends[at][2] = Math.max(ends[at][2], ends[at - 1][2] + 14);
  return ends;
}

function summary(samples, resource) {
  const [first, last] = [samples[0], samples.at(-1)];
  const gap = (sample) => sample[resource].max - sample[resource].min;
  const [threshold, allowed] = limitsOf(resource);
  const values = {
    time: duration(last.time - first.time),
    before: number(gap(first), 1),
    now: number(gap(last), 1),
    allowed: number(allowed),
    max: percent(last[resource].max, 1),
    threshold: percent(threshold),
  };
  return gap(last) > allowed ? t("spread.wide", values) : t("spread.even", values);
}
