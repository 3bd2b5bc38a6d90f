// The heat map of all nodes: a canvas that draws only what changed, arcs for the moves under way, the nodes' texts over
// them, a ring for the chosen node, a tooltip, pointer and keyboard. Views make one with `heatMap`; it follows the store
// until its signal ends.

import { scale } from "./colours.js";
import { el, fill, say } from "./dom.js";
import { arcs } from "./heatmap-arcs.js";
import { layOut } from "./heatmap-layout.js";
import { LABELLED, paintCell, write } from "./heatmap-paint.js";
import { number, percent, t, word } from "./i18n.js";
import { grouped, othersOf, ruleOf, stateWords, thresholdsOf, useOf } from "./nodes.js";
import { onPreference, preference, shownTheme } from "./preferences.js";
import { go, links } from "./router.js";
import { known, on } from "./store.js";

const TIP_WIDTH = 210;
const TIP_ROOM = 130;
const KEYS = new Set(["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"]);

/** Makes the heat map; `chosen(index)` is called for each selection (-1: none). */
export function heatMap(signal, chosen) {
  const canvas = el("canvas", { id: "heatmap", tabindex: "0", role: "application", aria: { roledescription: t("heatmap.role"), describedby: "heatmap-keys" } });
  const said = el("p", { id: "heatmap-said", class: "unseen", aria: { live: "polite" } });
  const tip = el("div", { id: "heatmap-tip", class: "tip", hidden: true });
  const ring = el("div", { class: "ring", hidden: true });
  const hover = el("div", { class: "ring faint", hidden: true });
  const overlay = arcs();
  const texts = el("canvas", { class: "texts", aria: { hidden: "true" } });
  const stage = el("div", { class: "stage" }, canvas, overlay.element, texts, hover, ring, tip, said,
    el("p", { id: "heatmap-keys", class: "unseen", text: t("heatmap.keys") }));
  const context = canvas.getContext("2d");
  const over = texts.getContext("2d");
  let layout = null;
  let colours = null;
  let scales = []; // by rule: a node's colours go by its own threshold
  let selected = "";
  let pointed = -1;
  let moved = null;

  const paint = (index) => {
    const { nodes } = known;
    const use = useOf(nodes, preference("metric"), index);
    const own = scales[ruleOf(nodes, index)] ?? colours;
    paintCell(context, layout.place(index), { use, state: nodes.state[index], name: nodes.names[index] }, own, layout.cell >= LABELLED ? over : null);
  };

  const paintHeadings = () => {
    const metric = preference("metric");
    over.fillStyle = colours.ink;
    over.strokeStyle = colours.paper;
    for (const block of layout.blocks) {
      if (!block.heading) continue;
      const mean = block.members.reduce((sum, index) => sum + (useOf(known.nodes, metric, index) || 0), 0) / block.members.length;
      over.clearRect(block.x - 3, block.y, block.across + 6, block.heading - 2);
      over.font = "600 13px system-ui, sans-serif";
      write(over, block.label, block.x, block.y + 16, { widest: block.across * 0.6 });
      const used = Math.min(over.measureText(block.label).width, block.across * 0.6);
      over.font = "12px system-ui, sans-serif";
      const whole = t("heatmap.heading", { count: block.members.length, mean: percent(mean) });
      const room = block.across - used - 10;
      const fits = over.measureText(whole).width <= room;
      write(over, fits ? whole : `· ${percent(mean)}`, block.x + used + 10, block.y + 16, { widest: Math.max(10, room), alpha: 0.66 });
    }
  };

  const draw = () => {
    const { nodes } = known;
    const width = Math.floor(stage.clientWidth);
    if (!nodes || width < 40) {
      layout = null; // hidden: it is laid out anew when it is seen again, with the nodes that there are then
      return;
    }
    const theme = shownTheme();
    scales = thresholdsOf(preference("metric")).map((threshold) => scale(theme, threshold));
    [colours] = scales;
    layout = layOut(grouped(nodes, preference("group")), width, Math.max(260, Math.min(640, window.innerHeight * 0.62)));
    texts.hidden = layout.cell < LABELLED && !layout.blocks.some((block) => block.heading);
    for (const pen of [context, over]) fit(pen, width, layout.height);
    paintHeadings();
    for (let index = 0; index < nodes.names.length; index += 1) paint(index);
    note();
    placeRings();
    overlay.draw(layout, width);
  };

  const update = (rows) => {
    if (rows === null || !layout) return draw();
    for (const index of rows) paint(index);
    paintHeadings();
    return note();
  };

  const note = () => {
    const { nodes } = known;
    canvas.dataset.revision = String(nodes.revision);
    canvas.dataset.nodes = String(nodes.names.length);
    const metric = word("metric", preference("metric"));
    canvas.setAttribute("aria-label", t("heatmap.label", { count: nodes.names.length, metric }));
  };

  const put = (element, index) => {
    const cell = index >= 0 && layout ? layout.place(index) : null;
    element.hidden = !cell;
    if (!cell) return;
    element.style.transform = `translate(${cell.x - 3}px, ${cell.y - 3}px)`;
    element.style.width = element.style.height = `${cell.size + 6}px`;
    element.style.borderRadius = `${cell.size >= 40 ? 11 : 4}px`;
  };

  const placeRings = () => put(ring, known.index.get(selected) ?? -1);

  const select = (index) => {
    selected = known.nodes?.names[index] ?? "";
    if (selected) canvas.dataset.selected = selected;
    else delete canvas.dataset.selected;
    placeRings();
    say(said, index >= 0 ? describe(index) : "");
    chosen(index);
  };

  const under = (event) => {
    const box = canvas.getBoundingClientRect();
    return layout ? layout.at(event.clientX - box.left, event.clientY - box.top) : -1;
  };

  // Once a frame is enough, and only when the pointer has come to another cell.
  const point = (index) => {
    if (index === pointed) return;
    pointed = index;
    put(hover, index);
    canvas.style.cursor = index >= 0 ? "pointer" : "default";
    showTip(tip, layout, index);
  };
  canvas.addEventListener("pointermove", (event) => {
    if (!moved) window.requestAnimationFrame(() => {
      if (moved) point(under(moved));
      moved = null;
    });
    moved = event;
  });
  canvas.addEventListener("pointerleave", () => {
    moved = null;
    point(-1);
  });
  canvas.addEventListener("click", (event) => select(under(event)));
  canvas.addEventListener("dblclick", (event) => open(under(event)));
  canvas.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || !layout) return;
    const index = known.index.get(selected) ?? -1;
    if (KEYS.has(event.key)) select(layout.step(index, event.key));
    else if (event.key === "Enter" && index >= 0) open(index);
    else if (event.key === "Escape" && index >= 0) select(-1);
    else return;
    event.preventDefault();
    ring.scrollIntoView?.({ block: "nearest" });
  });
  canvas.heatmapCell = (name) => layout?.place(known.index.get(name)) ?? null;

  on("nodes", update, signal);
  const drawn = () => scales.map(({ threshold }) => threshold).join();
  on("overview", () => colours && drawn() !== thresholdsOf(preference("metric")).join() && draw(), signal);
  on("migrations", () => layout && overlay.draw(layout, stage.clientWidth), signal);
  onPreference((name) => name !== "language" && draw(), signal);
  const size = new ResizeObserver(draw);
  size.observe(stage);
  signal.addEventListener("abort", () => size.disconnect());
  return stage;
}

// Empties it, too.
function fit(context, width, height) {
  const ratio = window.devicePixelRatio || 1;
  context.canvas.width = Math.round(width * ratio);
  context.canvas.height = Math.round(height * ratio);
  context.canvas.style.height = `${height}px`;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
}

function open(index) {
  if (index >= 0) go(links.node(known.nodes.names[index]));
}

/** A node in a sentence, for screen readers. */
export function describe(index) {
  const { nodes } = known;
  const values = { name: nodes.names[index], cpu: percent(nodes.cpu[index]), memory: percent(nodes.memory[index]), pods: number(nodes.pods[index]) };
  return [t("heatmap.said", values), ...stateWords(nodes.state[index])].join(", ");
}

// Its width is fixed and its height is left to the style, so that nothing has to be measured while the pointer moves.
function showTip(tip, layout, index) {
  tip.hidden = index < 0;
  if (index < 0) return;
  const { nodes } = known;
  const row = (label, value) => el("div", { class: "tip-row" }, el("span", { text: label }), el("b", { text: value }));
  const place = nodes.zones[nodes.zone[index]];
  const pool = nodes.pools[nodes.pool[index]];
  fill(tip,
    el("strong", { text: nodes.names[index] }),
    row(t("metric.cpu"), percent(nodes.cpu[index], 1)),
    row(t("metric.memory"), percent(nodes.memory[index], 1)),
    row(t("metric.pods"), `${number(nodes.pods[index])} / ${number(nodes.podRoom[index])}`),
    Object.entries(othersOf(nodes, index)).map(([name, share]) => (share === null ? null : row(name, percent(share, 1)))),
    place ? row(t("group.zone"), place) : null,
    pool ? row(t("group.pool"), pool) : null,
    stateWords(nodes.state[index]).map((text) => el("span", { class: "badge", text })),
  );
  const cell = layout.place(index);
  const left = Math.min(Math.max(0, cell.x + (cell.size - TIP_WIDTH) / 2), layout.width - TIP_WIDTH);
  const below = cell.y < TIP_ROOM;
  tip.style.transform = `translate(${left}px, ${below ? cell.y + cell.size + 8 : cell.y - 8}px) translateY(${below ? 0 : -100}%)`;
}
