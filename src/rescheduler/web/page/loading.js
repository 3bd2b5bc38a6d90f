// Fetches whole documents into the store: at the beginning, after a gap of the stream, and when it says that something
// must be fetched again. Only one fetch of a document runs at a time; a request that comes meanwhile runs after it.

import { read, signOut, tokenNow, whoami } from "./api.js";
import { changed, known, takeMigrations, takeNodes } from "./store.js";
import { tellTime } from "./i18n.js";

const RETRY = 5_000;

/**
 * Makes a loader of one document: never two fetches at a time, and never a lost wish. Live events that come while a
 * fetch is under way are given to `note`, and taken after the document, which may be older than they are.
 */
function loader(path, take) {
  let running = null;
  let again = false;
  let meanwhile = [];
  const run = async () => {
    try {
      do {
        again = false;
        meanwhile = [];
        const document = await read(path);
        if (!again) take(document, meanwhile);
      } while (again);
      known.unreachable = "";
    } catch (error) {
      known.unreachable = error.message || "–";
      if (known.live) window.setTimeout(load, RETRY); // else the stream's return brings it
    } finally {
      running = null;
      changed("live");
    }
  };
  const load = () => (running ??= run());
  load.again = () => {
    again = running !== null;
    return load();
  };
  load.note = (event) => running !== null && meanwhile.push(event) > 0;
  return load;
}

const loadOverview = loader("overview", (overview) => {
  tellTime(overview.now);
  known.overview = overview;
  changed("overview");
});

export const loadNodes = loader("nodes", takeNodes);

export const loadSpread = loader("spread", ({ samples }) => {
  known.samples = samples;
  changed("samples");
});

export const loadPlan = loader("plan", (plan) => {
  known.plan = plan;
  changed("plan");
});

export const loadMigrations = loader("migrations", takeMigrations);

/** Fetches the captions of guards and predicates. Without them, such as from an older replica, their names are shown. */
export async function loadCaptions() {
  try {
    known.captions = await read("captions");
    changed("plan");
  } catch {
    // the next stream brings another try
  }
}

/** Fetches the current user: after signing out, and with each stream. An answer for an old token is dropped. */
export async function loadWho() {
  const asked = tokenNow();
  try {
    const who = await whoami();
    if (tokenNow() !== asked) return;
    known.who = who;
  } catch (error) {
    if (tokenNow() !== asked) return;
    if (error.status === 401) signOut(); // it has expired, or was taken back
    if (error.status === 401 || !known.who) known.who = { name: "", groups: [], may: {} };
  }
  changed("who");
}

/** Everything that is not a view's own, as it is from now on. */
export async function loadAll() {
  await Promise.all([loadOverview, loadNodes, loadSpread, loadPlan, loadMigrations].map((load) => load.again()));
}
