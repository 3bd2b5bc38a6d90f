// The source of usage figures: a line that says whether pods' requests count or what is measured, and when
// that was measured last.

import { el, fill } from "./dom.js";
import { t, word } from "./i18n.js";
import { badge } from "./pieces.js";
import { known, on } from "./store.js";
import { ticking } from "./ticking.js";

/** The line; it follows the overview. */
export function useNote(signal) {
  const line = el("p", { class: "use-note dim" });
  let shown = "";
  const update = () => {
    const use = known.overview?.use;
    const now = JSON.stringify(use ?? null);
    if (!use || now === shown) return;
    shown = now;
    line.dataset.by = use.by;
    line.dataset.counts = String(use.counts);
    fill(line, word("use.by", use.by), " ", use.by === "requests" ? null : measured(use));
  };
  update();
  on("overview", update, signal);
  return line;
}

function measured({ counts, measured: time, why }) {
  if (!counts) return [badge(t("use.not"), "warn"), why ? ` ${why}` : null];
  return [t("use.measured"), " ", ticking(time), why ? [" ", badge(t("use.failing"), "warn"), ` ${why}`] : null];
}

/** How much is used of how much there is, in words; `resource` tells what of it can be measured. */
export function usedOf(resource, used, all) {
  const { by = "requests", counts = false } = known.overview?.use ?? {};
  const how = counts && (resource === "cpu" || resource === "memory") ? by : "requests";
  if (how === "usage") return t("node.ofUsed", { used, all });
  return how === "max" ? t("node.ofLarger", { used, all }) : t("node.of", { used, all });
}
