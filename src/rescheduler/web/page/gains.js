// What moves came to: the verdict as a badge, gains in percentage points, and the past moves of a pod's workload.

import { el } from "./dom.js";
import { moment, number, t, word } from "./i18n.js";
import { badge, nodeLink } from "./pieces.js";

const LOOKS = { Paid: "good", NotPaid: "warn", CameBack: "bad" };
const MOST = 8;

/** The verdict on a move; nothing before it was assessed. */
export function verdictBadge(verdict) {
  return verdict ? badge(word("verdict", verdict), LOOKS[verdict] ?? "") : null;
}

/** A gain in percentage points; a dash for what is not known. */
export function points(value) {
  return value === null || value === undefined ? "–" : number(value, 2);
}

/** Verdict, predicted and realised gain of one move. */
export function outcomeOf(found) {
  if (!found) return null;
  const gain = t("migration.gain", { predicted: points(found.predicted), realised: points(found.realised) });
  return el("span", { class: "outcome" }, verdictBadge(found.verdict), " ", gain);
}

/** The finished moves of a workload, as its pod's explanation lists them: the newest first. */
export function pastMoves(list) {
  if (list.length === 0) return null;
  const line = (move) =>
    el("li", { data: { past: move.migration } }, el("span", { class: "dim", text: moment(Date.parse(move.finished) / 1000) }), " ",
      nodeLink(move.from), " → ", nodeLink(move.to), " ", outcomeOf(move));
  return [
    el("h3", { text: t("pod.past") }),
    el("ul", { class: "plain-list" }, list.slice(0, MOST).map(line)),
    list.length > MOST ? el("p", { class: "dim", text: t("list.more", { count: list.length - MOST }) }) : null,
  ];
}
