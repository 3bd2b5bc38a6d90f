// One pod, explained: its result in the plan, the guards that block it, the verdict on each node, and a button to move it.

import { askMigrate } from "./actions.js";
import { path, read } from "./api.js";
import { el, fill, keyed } from "./dom.js";
import { field } from "./dialogs.js";
import { pastMoves } from "./gains.js";
import { number, percent, t, word } from "./i18n.js";
import { icon } from "./icons.js";
import { badge, card, empty, facts, failed, named, nodeLink, podLink, view, warnings, way } from "./pieces.js";
import { verdicts } from "./verdicts.js";
import { actionButton, rightsNote } from "./session.js";
import { migrationRow } from "./steps.js";
import { migrationKey, migrationsInOrder, on } from "./store.js";

const MOST_TARGETS = 100;
const OUTCOME_LOOKS = { moved: "good", removed: "good", rejected: "warn", notProposed: "" };

export function show(signal, [namespace, name]) {
  const told = el("div", {}, empty(t("pod.asking")));
  const form = moveForm(namespace, name);
  const said = el("div");
  const problem = el("div");
  const content = el("div", { class: "stack" }, told, form.element, said);
  const moves = el("div", { class: "migration-list" });
  const movesCard = card(t("pod.migrations"), null, moves);
  const root = view("pod", name, el("p", { class: "lead" }, t("table.namespace"), " ", el("code", { text: namespace })), movesCard, problem, content);

  let shown = "";

  // Whoever watches a pod being moved wants to go on with the pod that took its place.
  const whereTo = () => {
    const done = migrationsInOrder().find((row) => row.namespace === namespace && row.pod === name && row.phase === "Completed");
    if (!done?.replacement || done.replacement === name) return null;
    return card(t("pod.moved"), null, el("p", { data: { replacement: done.replacement } },
      t("pod.movedTo"), " ", podLink(namespace, done.replacement)), el("p", {}, way(done.source, done.target, done.method)));
  };

  const load = async () => {
    try {
      const explained = await read(`pods/${path(namespace, name)}`, signal);
      const now = JSON.stringify(explained);
      if (now !== shown) {
        fill(told, explanation(explained));
        fill(said, verdicts(explained));
        form.offer(explained.nodes);
      }
      shown = now;
      problem.replaceChildren();
      content.hidden = false;
      root.dataset.loaded = "true";
    } catch (error) {
      if (error.name === "AbortError") return;
      content.hidden = true;
      const moved = error.status === 404 ? whereTo() : null;
      if (moved) fill(problem, moved);
      else failed(problem, error, load);
      root.dataset.loaded = "true";
    }
  };
  const update = () => {
    const mine = migrationsInOrder().filter((row) => row.namespace === namespace && row.pod === name).slice(0, 5);
    movesCard.hidden = mine.length === 0;
    keyed(moves, mine, migrationKey, (row) => migrationRow(row));
  };
  on("plan", load, signal); // a new plan may say something else about it; the form is left as it is
  on("migrations", update, signal);
  update();
  load();
  return root;
}

function explanation(pod) {
  const requests = Object.entries(pod.requests).map(([resource, amount]) => `${resource} ${amount}`).join(", ");
  return card(t("pod.outcome"), badge(word("outcome", pod.outcome), OUTCOME_LOOKS[pod.outcome] ?? ""),
    el("p", { class: "reason big", text: pod.why }),
    pod.move ? el("p", {}, way(pod.move.from, pod.move.to, pod.move.method)) : null,
    facts(
      [t("table.node"), pod.node ? nodeLink(pod.node) : t("pod.noNode")],
      [t("table.workload"), pod.workload],
      [t("group.pool"), pod.pool || null],
      [t("pod.requests"), requests || t("pod.noRequests")],
      [t("pod.usage"), usage(pod)],
      [t("pod.priority"), number(pod.priority)],
      [t("pod.evictionCost"), evictionCost(pod.evictionCost)],
      [t("migration.method"), `${word("method", pod.method)} (${pod.method})`],
      [t("pod.notHandoff"), pod.notHandoff || null],
      [t("pod.rest"), pod.rest?.why ?? null],
      [t("pod.strategies"), pod.strategies.map((strategy) => badge(strategy))],
    ),
    el("h3", { text: t("pod.objections") }),
    pod.objections.length === 0
      ? el("p", { class: "fine" }, icon("check"), t("pod.noObjections"))
      : el("ul", { class: "objections" }, pod.objections.map(({ guard, reason }) =>
          el("li", { data: { objection: guard } }, named("guard", guard), el("span", { text: reason })))),
    pastMoves(pod.pastMoves ?? []),
    warnings(pod.warnings));
}

// Its place among pods of its priority, where a mark gives it one.
function evictionCost(told) {
  return told ? `${number(told.cost)} (${told.annotation})` : null;
}

// What it really uses, where that counts.
function usage({ utilization, usage: told }) {
  if (!utilization || utilization === "requests") return null;
  return told ? Object.entries(told).map(([resource, amount]) => `${resource} ${amount}`).join(", ") : t("use.not");
}

// Built once, so that what is typed stays while the explanation is renewed; `offer` renews what can be chosen.
function moveForm(namespace, pod) {
  const target = el("input", { type: "text", id: "target", list: "targets", autocomplete: "off", spellcheck: "false", placeholder: t("migrate.anyTarget") });
  const method = el("select", { id: "method" },
    el("option", { value: "", text: t("migrate.auto") }), ["handoff", "evict", "copy"].map((value) => el("option", { value, text: word("method", value) })));
  const options = el("datalist", { id: "targets" });
  const offer = (nodes) => {
    const feasible = nodes.filter((node) => node.feasible).sort((a, b) => a.cpu - b.cpu).slice(0, MOST_TARGETS);
    fill(options, feasible.map(({ node, cpu, memory }) =>
      el("option", { value: node, text: `${t("metric.cpu")} ${percent(cpu)} · ${t("metric.memory")} ${percent(memory)}` })));
  };
  const button = actionButton({
    action: "migrate", right: "migrate", label: t("migrate.button"), icon: icon("migrations"), look: "primary",
    press: () => askMigrate({ namespace, pod, target: target.value.trim(), method: method.value }),
  });
  const element = card(t("migrate.title"), null, el("p", { class: "dim", text: t("migrate.note") }),
    el("div", { class: "form" }, field(t("migrate.target"), target), options, field(t("migration.method"), method), button), rightsNote("migrate"));
  return { element, offer };
}
