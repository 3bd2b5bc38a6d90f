// Times that stay true by themselves: "12 s ago", "in 8 s". One timer for the whole page renews what is on it.

import { el, say } from "./dom.js";
import { ago, duration, moment, serverNow } from "./i18n.js";

const SHOWN = {
  ago: (time) => ago(Math.min(time, serverNow() - 0.001)), // 0 s "ago", never "in" 0 s
  until: (time) => ago(Math.max(time, serverNow())),
  since: (time) => duration(Math.max(0, serverNow() - time)),
};

/**
 * A <time> that renews itself. `how`: `ago`, `until`, or `since` for a running length of time.
 * A time that nobody knows is a dash.
 */
export function ticking(time, how = "ago") {
  if (!time) return el("span", { text: "–" });
  return el("time", {
    datetime: new Date(time * 1000).toISOString(),
    title: moment(time),
    data: { tick: how, at: String(time) },
    text: SHOWN[how](time),
  });
}

/** Begins to renew them. */
export function startTicking() {
  window.setInterval(() => {
    if (document.hidden) return;
    for (const each of document.querySelectorAll("time[data-tick]")) {
      say(each, SHOWN[each.dataset.tick](Number(each.dataset.at)));
    }
  }, 1000);
}
