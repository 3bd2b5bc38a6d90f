// The state of the page, and the listeners for its changes. `live.js` and `loading.js` write, views listen.
// Listeners run once a frame however many events arrive. For nodes they get the rows that changed, so that the heat
// map draws only those.

const target = new EventTarget();
const waiting = new Map();
let frame = 0;

/** The state. Nodes are columns, as the API returns them; null means not loaded yet. */
export const known = {
  overview: null,
  nodes: null,
  index: new Map(),
  samples: null,
  plan: null,
  migrations: new Map(),
  more: 0,
  replica: "", // whose stream it is
  listed: false,
  live: false,
  unreachable: "",
  nextTry: 0,
  who: null,
  captions: { guard: {}, predicate: {} },
};

/** Calls the listener with what changed: for `nodes` a Set of rows or null for all; for others nothing. */
export function on(topic, listener, signal) {
  target.addEventListener(topic, (event) => listener(event.detail), { signal });
}

/** Notes that a topic changed; the listeners hear of it with the next frame. */
export function changed(topic, rows = null) {
  if (rows && (!waiting.has(topic) || waiting.get(topic) !== null)) {
    const all = waiting.get(topic) ?? new Set();
    for (const row of rows) all.add(row);
    waiting.set(topic, all);
  } else waiting.set(topic, null);
  if (!frame) frame = schedule(tell);
}

// A hidden page gets no frames: a timer keeps what it knows fresh at little cost.
function schedule(work) {
  return document.hidden ? window.setTimeout(work, 250) : window.requestAnimationFrame(work);
}

function tell() {
  frame = 0;
  const now = [...waiting];
  waiting.clear();
  for (const [topic, rows] of now) target.dispatchEvent(new CustomEvent(topic, { detail: rows }));
}

/** Takes the columns of all nodes. `meanwhile`: the live events that came while they were being fetched. */
export function takeNodes(columns, meanwhile) {
  known.nodes = columns;
  known.index = new Map(columns.names.map((name, index) => [name, index]));
  for (const event of meanwhile) takeRows(event);
  changed("nodes");
}

/**
 * Takes changed rows [index, cpu, memory, pods, state, ...others]; says false when they do not fit what is known. Behind a Service
 * the columns may be another replica's than the stream: each counts revisions by itself, so only the nodes are compared.
 */
export function takeRows({ revision, count, rows }) {
  const { nodes, replica } = known;
  if (!nodes) return false;
  if ((nodes.replica ?? "") === replica) {
    if (revision <= nodes.revision) return true; // what was fetched is newer
  } else if (count !== nodes.names.length) return false;
  nodes.replica = replica;
  const touched = [];
  for (const [index, cpu, memory, pods, state, ...others] of rows) {
    if (!(index in nodes.names) || others.length !== (nodes.resources ?? []).length) return false;
    others.forEach((share, row) => { nodes.others[row][index] = share; });
    nodes.cpu[index] = cpu;
    nodes.memory[index] = memory;
    nodes.pods[index] = pods;
    nodes.state[index] = state;
    touched.push(index);
  }
  nodes.revision = revision;
  changed("nodes", touched);
  return true;
}

export function migrationKey(row) {
  return `${row.namespace}/${row.name}`;
}

/** Takes all migrations. An event that came meanwhile may be newer than the list; if it is older, a newer one follows. */
export function takeMigrations({ migrations, more }, meanwhile) {
  known.migrations = new Map(migrations.map((row) => [migrationKey(row), row]));
  known.more = more;
  known.listed = true;
  for (const event of meanwhile) takeMigration(event);
  changed("migrations");
}

/** Takes one migration as it is now, or that it is `gone`. */
export function takeMigration({ row, gone }) {
  if (gone) known.migrations.delete(migrationKey(row));
  else known.migrations.set(migrationKey(row), row);
  changed("migrations");
}

/** All migrations: those under way first, then the newest. */
export function migrationsInOrder() {
  const rank = (row) => (row.phase === "InProgress" ? 0 : row.phase === "Pending" ? 1 : 2);
  return [...known.migrations.values()].sort(
    (a, b) => rank(a) - rank(b) || (b.finished ?? b.created ?? 0) - (a.finished ?? a.created ?? 0) || a.name.localeCompare(b.name),
  );
}

export function isUnderWay(row) {
  return row.phase === "InProgress" || row.phase === "Pending";
}
