// The current plan: what it would change (before → after), its moves with reasons and approval, and what was rejected.

import { approveButton, askApprove } from "./actions.js";
import { el, fill } from "./dom.js";
import { duration, number, percent, t, word } from "./i18n.js";
import { icon } from "./icons.js";
import { pagedList } from "./paging.js";
import { badge, card, empty, podLink, view, warnings, way } from "./pieces.js";
import { rejections } from "./rejections.js";
import { actionButton, rightsNote } from "./session.js";
import { migrationRow } from "./steps.js";
import { known, migrationKey, on } from "./store.js";
import { ticking } from "./ticking.js";

export function show(signal) {
  const about = el("p", { class: "lead" });
  const change = el("div");
  const waiting = el("div");
  const warned = el("div");
  const together = new Map();
  const moves = pagedList({
    container: el("div", { class: "move-list" }),
    keyOf: ({ move }) => `${move.namespace}/${move.pod}`,
    build: (item) => moveRow(item, together),
    empty: t("plan.noMoves"),
  });
  const count = el("span", { class: "count" });
  const refused = rejections();
  // Moves of an earlier plan that still wait: the newest one is made on top of them, so it does not name them.
  const earlier = pagedList({ container: el("div", { class: "migration-list" }), keyOf: migrationKey, build: (row) => migrationRow(row) });
  const earlierCard = card(t("phase.awaits"), null, earlier.element);
  earlierCard.hidden = true;
  const root = view("plan", t("nav.plan"), about, waiting, earlierCard, change, warned,
    card(t("plan.moves"), count, moves.element), refused.element);
  let shownPlan = null;
  let items = [];

  const update = () => {
    const told = known.plan;
    if (!told) return;
    const { plan } = told;
    root.dataset.loaded = "true";
    if (!plan) {
      fill(about, t("plan.none"));
    } else if (shownPlan !== plan) {
      const fresh = shownPlan === null;
      shownPlan = plan;
      fill(about, t("plan.made", { by: told.by || "–", time: duration(told.seconds) }), " ", told.made ? ticking(told.made) : null);
      fill(change, pictures(plan));
      fill(warned, warnings(plan.warnings));
      together.clear();
      for (const { proposal } of plan.moves) together.set(proposal, (together.get(proposal) ?? 0) + 1);
      count.textContent = number(plan.moves.length);
      refused.show(plan.rejections, told.rejected, fresh);
      items = [];
    }
    approvals();
  };

  // A move is shown anew when the migration that waits for approval changes, and only then.
  const approvals = () => {
    const rows = [...known.migrations.values()].filter((row) => row.awaitsApproval);
    const awaiting = new Map(rows.map((row) => [`${row.namespace}/${row.pod}`, row]));
    const old = new Map(items.map((item) => [item.move, item]));
    items = (shownPlan?.moves ?? []).map((move) => {
      const row = awaiting.get(`${move.namespace}/${move.pod}`);
      return old.has(move) && old.get(move).row === row ? old.get(move) : { move, row };
    });
    if (shownPlan) moves.show(items);
    const named = new Set(items.map(({ row }) => row));
    const others = rows.filter((row) => !named.has(row));
    earlierCard.hidden = others.length === 0;
    earlier.show(others);
    waiting.dataset.count = String(rows.length);
    approvalBar(waiting, rows);
  };
  update();
  on("plan", update, signal);
  on("migrations", approvals, signal);
  return root;
}

// Built once and kept while anything waits, so that focus stays on its button.
function approvalBar(place, rows) {
  if (rows.length === 0) {
    place.replaceChildren();
    return;
  }
  place.rows = rows;
  if (place.firstElementChild) {
    place.querySelector("[data-waiting]").textContent = t("approve.waiting", { count: rows.length });
    return;
  }
  const button = actionButton({
    action: "approve-all", right: "approve", id: "approve-all", label: t("approve.all"), icon: icon("check"), look: "primary",
    press: () => askApprove(place.rows),
  });
  fill(place, el("div", { class: "banner warn" },
    el("div", {}, el("strong", { data: { waiting: "" }, text: t("approve.waiting", { count: rows.length }) }), rightsNote("approve")), button));
}

function moveRow({ move, row }, together) {
  const others = (together.get(move.proposal) ?? 1) - 1;
  return el("article", { class: "move", data: { move: `${move.namespace}/${move.pod}` } },
    el("div", { class: "migration-head" }, el("span", { class: "migration-pod" }, podLink(move.namespace, move.pod)), way(move.from, move.to, move.method)),
    el("p", { class: "reason", text: move.reason }),
    el("div", { class: "tags" }, badge(move.strategy), badge(word("method", move.method)), gain(move), el("span", { class: "dim", text: move.workload }),
      others > 0 ? el("span", { class: "together" }, icon("link"), t("plan.together", { count: others })) : null,
      row ? approveButton(row) : null));
}

function gain({ gain: points }) {
  return Number.isFinite(points) ? el("span", { class: "dim", text: t("plan.gain", { gain: number(points, 1) }) }) : null;
}

function pictures({ before, after, moves, utilization }) {
  const figures = ["max", "mean", "min", "stddev"];
  const line = (label, from, to, digits, unit) => {
    const better = to < from - 0.005 ? "better" : to > from + 0.005 ? "worse" : "same";
    return el("tr", {}, el("th", { scope: "row", text: label }), el("td", { class: "numeric", text: unit(from, digits) }),
      el("td", { class: "turn" }, icon("arrow")), el("td", { class: `numeric ${label === word("spread.line", "min") ? "same" : better}`, text: unit(to, digits) }));
  };
  const table = (title, from, to) => el("table", { class: "before-after" },
    el("caption", { text: title }),
    el("thead", { class: "unseen" }, el("tr", {}, ["", t("plan.before"), "", t("plan.after")].map((text) => el("th", { scope: "col", text })))),
    el("tbody", {}, figures.map((name) => line(word("spread.line", name), from[name], to[name], 1, percent))));
  const by = utilization && utilization !== "requests" ? badge(word("use.by", utilization)) : null;
  const pools = Object.keys(before.hotNodesByPool ?? {});
  return card(t("plan.change"), by, moves.length === 0 ? empty(t("plan.unchanged")) : null,
    el("div", { class: "pictures" }, table(word("metric", "cpu"), before.cpu, after.cpu), table(word("metric", "memory"), before.memory, after.memory),
      Object.keys(before.others ?? {}).map((name) => table(word("metric", name), before.others[name], after.others[name])),
      el("table", { class: "before-after" }, el("caption", { text: t("overview.hot") }),
        el("tbody", {}, line(t("plan.hotNodes"), before.hotNodes, after.hotNodes, 0, number),
          pools.map((name) => line(name, before.hotNodesByPool[name], after.hotNodesByPool[name], 0, number))))));
}
