// Which view is shown: hash routes, and the links to them. Names from the cluster are encoded, so none can lead elsewhere.

export const links = {
  heatmap: () => "#/",
  plan: () => "#/plan",
  migrations: () => "#/migrations",
  outcomes: () => "#/outcomes",
  config: () => "#/config",
  health: () => "#/health",
  node: (name) => `#/node/${encodeURIComponent(name)}`,
  pod: (namespace, name) => `#/pod/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`,
};

const PLAIN = { "": "heatmap", plan: "plan", migrations: "migrations", outcomes: "outcomes", config: "config", health: "health" };

/** The view and its parameters for a hash; `missing` for what leads nowhere. */
export function route(hash) {
  const [first = "", ...rest] = hash.replace(/^#\/?/, "").split("/");
  let names;
  try {
    names = rest.map(decodeURIComponent);
  } catch {
    return { view: "missing", names: [] }; // a broken % sequence
  }
  if (first === "node" && names.length === 1 && names[0]) return { view: "node", names };
  if (first === "pod" && names.length === 2 && names[0] && names[1]) return { view: "pod", names };
  if (Object.hasOwn(PLAIN, first) && names.length === 0) return { view: PLAIN[first], names: [] };
  return { view: "missing", names: [] };
}

export function go(link) {
  window.location.hash = link;
}
