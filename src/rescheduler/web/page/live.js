// Keeps the live stream open: connects, applies events to the store, and comes back after a loss, later each time and
// at a random moment, so that a hundred pages do not return together. After each gap everything is fetched again.
// A stream without data for 45 s (the server sends something every 15) counts as lost.

import { openLive } from "./api.js";
import { EventReader } from "./sse.js";
import { loadAll, loadCaptions, loadMigrations, loadNodes, loadPlan, loadSpread, loadWho } from "./loading.js";
import { changed, known, takeMigration, takeRows } from "./store.js";
import { serverNow, tellTime } from "./i18n.js";

const SILENCE = 45_000;
const FIRST_WAIT = 1_000;
const LONGEST_WAIT = 30_000;
const MOST_SAMPLES = 900;

const handlers = {
  hello: ({ now, replica = "" }) => {
    tellTime(now);
    known.replica = replica;
    setLive(true);
    loadCaptions();
    loadAll();
    loadWho();
  },
  overview: (overview) => {
    tellTime(overview.now);
    known.overview = overview;
    changed("overview");
  },
  nodes: (event) => {
    if (event.reset) loadNodes.again();
    else if (!loadNodes.note(event) && !takeRows(event)) loadNodes();
  },
  sample: (sample) => {
    if (!known.samples) return;
    const last = known.samples.at(-1);
    if (last && last.time >= sample.time) return;
    known.samples.push(sample);
    if (known.samples.length > MOST_SAMPLES) loadSpread(); // the server thins out what is old
    changed("samples");
  },
  plan: () => loadPlan.again(),
  migration: (row) => noteMigration({ row, gone: false }),
  gone: (row) => noteMigration({ row, gone: true }),
};

function noteMigration(event) {
  if (!loadMigrations.note(event)) takeMigration(event);
}

function setLive(live) {
  known.live = live;
  document.body.dataset.live = live ? "on" : "off";
  changed("live");
}

/** Follows the stream until the page is left. */
export async function follow() {
  let failures = 0;
  for (;;) {
    const began = Date.now();
    let asked = 0;
    try {
      await readStream();
    } catch (error) {
      asked = (error.retryAfter ?? 0) * 1000;
    }
    setLive(false);
    failures = Date.now() - began > 60_000 ? 1 : failures + 1;
    const longest = Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** (failures - 1));
    await pause(Math.max(asked, longest / 2 + Math.random() * (longest / 2)));
    // Without the stream (a hundred others may be reading it) the page still shows what a fetch gives.
    loadAll();
  }
}

async function readStream() {
  const ending = new AbortController();
  let watchdog = 0;
  const heard = () => {
    window.clearTimeout(watchdog);
    watchdog = window.setTimeout(() => ending.abort(), SILENCE);
  };
  heard();
  try {
    const answer = await openLive(ending.signal);
    const reader = new EventReader();
    const bytes = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await bytes.read();
      if (done) return;
      heard();
      for (const { event, data } of reader.feed(value)) handlers[event]?.(JSON.parse(data));
    }
  } finally {
    window.clearTimeout(watchdog);
    ending.abort();
  }
}

// Ends early when the browser is back online or the page is looked at again.
function pause(milliseconds) {
  known.nextTry = serverNow() + milliseconds / 1000;
  changed("live");
  return new Promise((resolve) => {
    const ended = new AbortController();
    const end = () => {
      ended.abort();
      window.clearTimeout(timer);
      resolve();
    };
    const timer = window.setTimeout(end, milliseconds);
    window.addEventListener("online", end, { signal: ended.signal });
    document.addEventListener("visibilitychange", () => document.hidden || end(), { signal: ended.signal });
  });
}
