// Requests to the server of this page, and to no other host: reads, actions, and the current user.
// The token is kept in this module's memory only, and sent only with actions and whoami. Addresses are relative, so the
// page also works below a path, as behind `kubectl proxy`.

let token = "";

/** An answer that is not 2xx, or none at all: `message` is the server's sentence. */
class ApiError extends Error {
  constructor(message, status, retryAfter = 0) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

async function asked(path, options) {
  let answer;
  try {
    answer = await fetch(`api/${path}`, { cache: "no-store", credentials: "omit", redirect: "error", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("", 0);
  }
  if (!answer.ok) throw await refusal(answer);
  return answer;
}

async function refusal(answer) {
  let sentence = `${answer.status} ${answer.statusText}`;
  try {
    sentence = (await answer.json()).error ?? sentence;
  } catch {
    // no JSON, such as from a proxy in between: its status is all there is to say
  }
  return new ApiError(sentence, answer.status, Number(answer.headers.get("Retry-After")) || 0);
}

/** Reads a document, such as `overview` or `nodes/worker-1`. */
export async function read(path, signal) {
  return (await asked(path, { signal })).json();
}

/** Opens the live stream. */
export function openLive(signal) {
  return asked("live", { signal, headers: { Accept: "text/event-stream" } });
}

/** The user of the token (or, without one, of this computer), and what it may do. */
export async function whoami() {
  return (await asked("whoami", { headers: credentials(token) })).json();
}

/** Tries a token, and keeps it if the server accepts it. */
export async function signIn(candidate) {
  const who = await (await asked("whoami", { headers: credentials(candidate) })).json();
  token = candidate;
  return who;
}

/** What is sent; only to be compared with what was sent before. */
export function tokenNow() {
  return token;
}

export function signOut() {
  token = "";
}

/** Does an action; returns the server's sentence about what was done. */
export async function act(name, body) {
  const headers = { "Content-Type": "application/json", "X-Rescheduler-Action": name, ...credentials(token) };
  return (await (await asked(`actions/${name}`, { method: "POST", headers, body: JSON.stringify(body) })).json()).done;
}

function credentials(bearer) {
  return bearer ? { Authorization: `Bearer ${bearer}` } : {};
}

/** A path from parts of hostile text. */
export function path(...parts) {
  return parts.map(encodeURIComponent).join("/");
}
