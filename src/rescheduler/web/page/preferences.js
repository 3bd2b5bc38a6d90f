// What this browser remembers: language, theme, and how the heat map is looked at. Nothing else is kept, and never a
// token. Where storage is closed to us (private windows, policies) the choice lasts as long as the page.

const METRICS = ["cpu", "memory", "pods"];
const CHOICES = {
  language: ["en", "zh"],
  theme: ["auto", "light", "dark"],
  metric: METRICS,
  group: ["zone", "pool", "flat"],
};
const chosen = {};
const listeners = new Set();
const dark = window.matchMedia("(prefers-color-scheme: dark)");

function guess(name) {
  if (name !== "language") return CHOICES[name][0];
  const first = (navigator.languages?.[0] ?? navigator.language ?? "en").toLowerCase();
  return first.startsWith("zh") ? "zh" : "en";
}

/** The choice for `language`, `theme`, `metric` or `group`. */
export function preference(name) {
  if (!(name in chosen)) {
    let kept = null;
    try {
      kept = window.localStorage.getItem(`rescheduler.${name}`);
    } catch {
      kept = null; // storage is closed to this page: it goes without
    }
    chosen[name] = CHOICES[name].includes(kept) ? kept : guess(name);
  }
  return chosen[name];
}

/** Sets and stores a preference, and calls the listeners. */
export function prefer(name, value) {
  if (!CHOICES[name].includes(value) || preference(name) === value) return;
  chosen[name] = value;
  try {
    window.localStorage.setItem(`rescheduler.${name}`, value);
  } catch {
    // storage is closed or full: the choice holds until the page is left
  }
  for (const listener of [...listeners]) listener(name, value);
}

/** Tells of each choice, and (as `theme`) of the system's change between light and dark. */
export function onPreference(listener, signal) {
  listeners.add(listener);
  signal?.addEventListener("abort", () => listeners.delete(listener));
}

/** `light` or `dark`: what is really shown. */
export function shownTheme() {
  const theme = preference("theme");
  if (theme !== "auto") return theme;
  return dark.matches ? "dark" : "light";
}

/** Adds resources with a threshold to the metrics. Returns whether any is new. */
export function offerMetrics(resources) {
  const all = [...METRICS, ...resources];
  if (all.join() === CHOICES.metric.join()) return false;
  CHOICES.metric = all;
  const before = preference("metric");
  delete chosen.metric; // what was chosen the last time may be there again, or may be gone
  if (preference("metric") !== before) for (const listener of [...listeners]) listener("metric", preference("metric"));
  return true;
}

/** The values that a choice may have, in the order of its menu. */
export function choices(name) {
  return CHOICES[name];
}

dark.addEventListener("change", () => {
  if (preference("theme") === "auto") for (const listener of [...listeners]) listener("theme", "auto");
});
