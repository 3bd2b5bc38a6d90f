// A migration as people follow it: a line of steps that fills up, what it is doing now, and on demand the whole story
// (times of steps, reason, method, who approved it, predicted and realised gain). Used wherever migrations are shown.

import { approveButton } from "./actions.js";
import { el } from "./dom.js";
import { outcomeOf } from "./gains.js";
import { clock, duration, number, t, word } from "./i18n.js";
import { badge, facts, fold, phaseBadge, podLink, way } from "./pieces.js";
import { migrationKey } from "./store.js";
import { ticking } from "./ticking.js";

const opened = new Set();

/** The line of steps: done, under way, to come. */
function stepLine(row) {
  const { steps, step, phase } = row;
  if (steps.length === 0) return null;
  const at = phase === "Completed" ? steps.length : reached(row);
  const back = phase === "Failed" || (phase === "InProgress" && step !== "" && !steps.includes(step)); // rolled back, or about to be
  const label =
    phase === "Completed"
      ? t("steps.all", { all: steps.length })
      : t("steps.at", { at: Math.min(at + 1, steps.length), all: steps.length, step: word("step", step || steps[0]) });
  return el("ol", { class: `steps ${phase}`, role: "img", aria: { label } },
    steps.map((name, index) => {
      const state = index < at ? "done" : index > at || phase === "Pending" ? "todo" : back ? "broken" : "now";
      return el("li", { class: state, title: word("step", name) });
    }));
}

// How far it came: its step; of one that is rolled back, the last step that was seen.
function reached({ steps, step, history }) {
  if (steps.includes(step)) return steps.indexOf(step);
  return Math.max(0, ...history.map((entry) => steps.indexOf(entry.step)));
}

/** A whole row; `short` leaves the story out. */
export function migrationRow(row, short = false) {
  const key = migrationKey(row);
  const children = [
    el("div", { class: "migration-head" }, phaseBadge(row), el("span", { class: "migration-pod" }, podLink(row.namespace, row.pod)), way(row.source, row.target, row.method)),
    el("div", { class: "migration-line" }, stepLine(row), now(row)),
    row.message ? el("p", { class: row.phase === "Failed" ? "migration-message bad-text" : "migration-message", text: row.message }) : null,
    row.awaitsApproval ? el("div", { class: "migration-buttons" }, approveButton(row)) : null,
    short ? null : story(row, key),
  ];
  return el("article", { class: short ? "migration short" : "migration", data: { migration: key, phase: row.phase, step: row.step } }, children);
}

// What it does now, and for how long; or how long it took.
function now(row) {
  if (row.finished && row.started) {
    return el("span", { class: "migration-now" }, t("migration.took", { time: duration(Math.max(0, row.finished - row.started)) }), " · ", ticking(row.finished));
  }
  if (row.phase === "InProgress") {
    const since = row.history.at(-1)?.time ?? row.started;
    const doing = row.step ? word("step", row.step) : t("migration.begins");
    return el("span", { class: "migration-now" }, el("b", { text: doing }), place(row), since ? [" · ", ticking(since, "since")] : null);
  }
  return row.created ? el("span", { class: "migration-now" }, ticking(row.finished ?? row.created)) : null;
}

function place({ steps, step }) {
  const at = steps.indexOf(step);
  return at < 0 ? null : ` ${number(at + 1)}/${number(steps.length)}`;
}

function story(row, key) {
  const details = el("details", { class: "story" }, el("summary", { text: t("migration.story") }));
  return fold(details, opened, key, () => details.append(...chapters(row).filter(Boolean)));
}

function chapters(row) {
  return [
    row.reason ? el("p", { class: "reason" }, el("span", { class: "unseen", text: `${t("migration.reason")}: ` }), row.reason) : null,
    facts(
      [t("migration.name"), el("code", { text: row.name })],
      [t("migration.strategy"), badge(row.strategy)],
      [t("migration.method"), row.method ? `${word("method", row.method)} (${row.method})` : t("migration.undecided")],
      [t("migration.workload"), row.workload],
      [t("migration.attempts"), row.attempts > 1 ? number(row.attempts) : null],
      [t("migration.plan"), row.plan ? el("code", { text: row.plan }) : null],
      [t("migration.approvedBy"), row.approvedBy || null],
      [t("migration.created"), row.created ? clock(row.created) : null],
      [t("migration.outcome"), outcomeOf(row.outcome)],
    ),
    row.history.length > 0 ? el("ol", { class: "history" }, row.history.map((entry, index) => chapter(row, entry, index))) : null,
  ];
}

function chapter(row, entry, index) {
  const end = row.history[index + 1]?.time ?? row.finished;
  return el("li", {},
    el("time", { datetime: new Date(entry.time * 1000).toISOString(), text: clock(entry.time) }),
    el("span", {}, word("step", entry.step), " ", el("code", { class: "dim", text: entry.step })),
    el("span", { class: "dim" }, end ? duration(Math.max(0, end - entry.time)) : ticking(entry.time, "since")));
}
