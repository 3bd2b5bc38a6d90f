// Health: caches and their lag, the leader, the live stream of this page, and warnings.

import { el, fill } from "./dom.js";
import { duration, moment, number, t, word } from "./i18n.js";
import { icon } from "./icons.js";
import { badge, card, facts, view, warnings } from "./pieces.js";
import { known, on } from "./store.js";
import { ticking } from "./ticking.js";

export function show(signal) {
  const leader = el("div");
  const caches = el("tbody");
  const warned = el("div");
  const connection = el("div");
  const heads = [t("health.part"), t("health.state"), t("health.count"), t("health.lag")];
  const root = view("health", t("nav.health"), warned,
    el("div", { class: "two" }, card(t("health.leader"), null, leader), card(t("health.page"), null, connection)),
    card(t("health.caches"), null, el("div", { class: "table-wrap", tabindex: "0", role: "region", aria: { label: t("health.caches") } },
      el("table", {}, el("caption", { class: "unseen", text: t("health.caches") }),
        el("thead", {}, el("tr", {}, heads.map((text, at) => el("th", { scope: "col", class: at > 1 ? "numeric" : null, text })))), caches))));

  const update = () => {
    const { overview } = known;
    if (!overview) return;
    const { replica } = overview;
    fill(warned, warnings(overview.warnings));
    fill(leader, facts(
      [t("health.leads"), replica.leader ? el("code", { text: replica.leader }) : t("health.nobody")],
      [t("health.replica"), [el("code", { text: replica.identity }), " ", replica.leading ? badge(t("health.leading"), "good") : badge(t("health.standby"))]],
      [t("health.cluster"), overview.cluster],
      [t("health.version"), overview.version],
      [t("health.approval"), word("approval", overview.approval)],
      [t("health.interval"), duration(overview.interval)],
      [t("node.use"), overview.use ? word("use.by", overview.use.by) : null],
      [t("health.window"), windows(overview.window)],
    ));
    fill(caches, overview.health.map((each) => part(each, overview.now)));
    root.dataset.loaded = "true";
  };
  const connected = () => fill(connection, facts(
    [t("health.stream"), known.live ? badge(t("live.on"), "good") : badge(t("live.off"), "bad")],
    [t("health.nextTry"), known.live || !known.nextTry ? null : ticking(known.nextTry, "until")],
    [t("health.problem"), known.unreachable || null],
    [t("health.access"), word("access", known.overview?.access ?? "token")],
    [t("health.revision"), known.nodes ? number(known.nodes.revision) : null],
  ));
  update();
  connected();
  on("overview", update, signal);
  on("live", connected, signal);
  return root;
}

// The time windows in which moves may begin, and until when it stays as it is.
function windows(hours) {
  if (!hours) return null;
  const state = badge(hours.open ? t("window.open") : t("window.closed"), hours.open ? "good" : "warn");
  const texts = hours.windows.map((text, at) => [at ? ", " : null, el("code", { text })]);
  return [state, " ", hours.until === null ? "∞" : moment(hours.until), el("br"), texts, ` ${hours.timeZone}`];
}

// The last update is shown as a time, which stays true while nothing new arrives.
function part({ name, ok, why, count, lag }, now) {
  return el("tr", { data: { health: name, ok: String(ok) } },
    el("th", { scope: "row", text: name }),
    el("td", { class: "wide" }, el("span", { class: ok ? "fine" : "trouble" }, icon(ok ? "check" : "warning"), ok ? t("health.ok") : why || t("health.bad"))),
    el("td", { class: "numeric", text: count === null ? "–" : number(count) }),
    el("td", { class: "numeric" }, lag === null ? "–" : ticking(now - lag)));
}
