// Short messages at the foot of the page, spoken by screen readers: what an action did, or the server's sentence why not.
// A good one goes by itself; an error stays until it is put away, so that it can be read.

import { el } from "./dom.js";
import { t } from "./i18n.js";
import { icon } from "./icons.js";

const SHOWN = 8_000;
const MOST = 4;

/** Shows a message. `kind`: `good`, `bad` or `plain`. */
export function notify(text, kind = "plain") {
  const place = document.getElementById("notice");
  const close = el("button", {
    type: "button",
    class: "quiet",
    aria: { label: t("notice.close") },
    on: { click: () => message.remove() },
  }, icon("cross"));
  const message = el("div", { class: `message ${kind}`, data: { kind } }, el("p", { text }), close);
  place.append(message);
  while (place.children.length > MOST) place.firstElementChild.remove();
  if (kind !== "bad") window.setTimeout(() => message.remove(), SHOWN);
}
