// Where the page begins: language and theme, the shell, the view that the address asks for, and the live stream.

import { locale, t } from "./i18n.js";
import { follow } from "./live.js";
import { loadAll, loadCaptions, loadWho } from "./loading.js";
import { empty, view as viewRoot } from "./pieces.js";
import { onPreference, shownTheme } from "./preferences.js";
import { route } from "./router.js";
import { buildShell, markView } from "./shell.js";
import { startRights } from "./session.js";
import { startShortcuts } from "./shortcuts.js";
import { known, on } from "./store.js";
import { startTicking } from "./ticking.js";
import * as configuration from "./view-config.js";
import * as health from "./view-health.js";
import * as heatmap from "./view-heatmap.js";
import * as migrations from "./view-migrations.js";
import * as node from "./view-node.js";
import * as outcomes from "./view-outcomes.js";
import * as plan from "./view-plan.js";
import * as pod from "./view-pod.js";

const SLOW_STREAM = 1_500;
const VIEWS = { heatmap, plan, migrations, node, pod, outcomes, config: configuration, health, missing: { show: missing } };
const main = document.getElementById("main");
let shell = new AbortController();
let shown = new AbortController();

function missing() {
  return viewRoot("missing", t("missing.title"), empty(t("missing.about")));
}

function showView(moveFocus) {
  const { view, names } = route(window.location.hash);
  shown.abort();
  shown = new AbortController();
  const root = VIEWS[view].show(shown.signal, names);
  main.replaceChildren(root);
  markView(view);
  const heading = root.querySelector("h1");
  document.title = `${heading.textContent} · kube-rescheduler`;
  if (!moveFocus) return;
  window.scrollTo(0, 0);
  heading.focus({ preventScroll: true });
}

function dress() {
  document.documentElement.lang = locale() === "zh-CN" ? "zh-CN" : "en";
  document.documentElement.dataset.theme = shownTheme();
}

function build() {
  shell.abort();
  shell = new AbortController();
  dress();
  buildShell(shell.signal);
  showView(false);
}

// The first picture is there when overview and nodes are, whatever else is still being fetched.
function noteReady() {
  if (known.overview && known.nodes) document.body.dataset.ready = "true";
}

dress();
onPreference((name) => {
  if (name === "theme") dress();
  if (name === "language") {
    const chosen = document.activeElement?.id === "language"; // its menu is built anew, and keeps focus
    build();
    if (chosen) document.getElementById("language").focus();
  }
});
build();
on("overview", noteReady);
on("nodes", noteReady);
window.addEventListener("hashchange", () => showView(true));
// The skip link leads to #main, which is no route of ours.
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
startRights();
startShortcuts();
startTicking();
follow();
window.setTimeout(() => {
  if (!known.overview) {
    loadCaptions();
    loadAll();
  }
  if (!known.who) loadWho();
}, SLOW_STREAM);
