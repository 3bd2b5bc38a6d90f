// The signed-in user, its rights, and the buttons that act. A button without rights stays visible and focusable: it
// shows why it does nothing, and pressing it opens the sign-in dialog. Kubernetes decides; the page only predicts.

import { act, signIn, signOut } from "./api.js";
import { field, openDialog } from "./dialogs.js";
import { el } from "./dom.js";
import { t } from "./i18n.js";
import { loadWho } from "./loading.js";
import { notify } from "./notice.js";
import { changed, known, on } from "./store.js";

// These can be granted in one namespace or for one node, which whoami does not ask about: the action's answer decides.
const MAY_BE_NARROW = new Set(["approve", "migrate", "maintenance"]);

/** Why a right is lacking, as a sentence; empty when the button may be pressed. */
function obstacle(right) {
  const { who } = known;
  if (!who) return t("rights.asking");
  if (who.may?.[right]) return "";
  if (!who.name) return t("rights.nobody");
  return MAY_BE_NARROW.has(right) ? "" : t("rights.lacking", { name: who.name });
}

/** What to say beside a button that may be pressed but perhaps in vain. */
function remark(right) {
  const { who } = known;
  return who?.name && !who.may?.[right] && MAY_BE_NARROW.has(right) ? t("rights.narrow") : "";
}

/** A button that acts. `right`: what one must be allowed; `press`: what it does then. It follows the rights. */
export function actionButton({ action, right, label, icon, id, look = "", press }) {
  const button = el("button", { type: "button", id, class: `button ${look}`, data: { action, right } }, icon, el("span", { text: label }));
  dressButton(button);
  button.addEventListener("click", () => {
    const why = obstacle(right);
    if (!why) press();
    else if (known.who && !known.who.name) askToken(why);
    else notify(why);
  });
  return button;
}

/** The sentence beside buttons of a right: why they are closed, with the way to sign in. It follows the rights. */
export function rightsNote(right) {
  const note = el("p", { class: "rights-note", data: { explains: right } });
  dressNote(note);
  return note;
}

function dressButton(button) {
  const why = obstacle(button.dataset.right);
  button.setAttribute("aria-disabled", why ? "true" : "false");
  button.title = why || remark(button.dataset.right);
}

function dressNote(note) {
  const right = note.dataset.explains;
  const why = obstacle(right);
  note.hidden = !why && !remark(right);
  note.textContent = why || remark(right);
  if (why && known.who && !known.who.name && known.overview?.access !== "local") {
    note.append(" ", el("button", { type: "button", class: "link", text: t("signin.open"), on: { click: () => askToken("") } }));
  }
}

/** Keeps all that depends on rights true; one listener for the page, because rows with buttons come and go. */
export function startRights() {
  on("who", () => {
    document.querySelectorAll("[data-right]").forEach(dressButton);
    document.querySelectorAll("[data-explains]").forEach(dressNote);
  });
}

/** Does an action and shows the result; throws the server's sentence for a dialog to show. */
export async function perform(name, body) {
  try {
    notify(await act(name, body), "good");
  } catch (error) {
    if (error.status === 401) loadWho(); // the token has expired meanwhile
    throw error;
  }
}

/** Opens the sign-in dialog. The token goes into memory, and nowhere else. */
export function askToken(why) {
  const input = el("input", {
    type: "password",
    id: "token",
    autocomplete: "off",
    spellcheck: "false",
    required: true,
    data: { first: "" },
  });
  openDialog({
    kind: "sign-in",
    title: t("signin.title"),
    ok: t("signin.ok"),
    body: [
      why ? el("p", { text: why }) : null,
      el("p", { text: t("signin.about") }),
      el("pre", { class: "command", text: "kubectl create token NAME -n NAMESPACE --duration 1h" }),
      field(t("signin.token"), input, t("signin.kept")),
    ],
    submit: async () => {
      const token = input.value.trim();
      if (!token) throw new Error(t("signin.empty"));
      // A header takes printable ASCII only; anything else was pasted from somewhere wrong.
      if (!/^[\x21-\x7e]+$/.test(token)) throw new Error(t("signin.odd"));
      known.who = await signIn(token);
      changed("who");
      if (known.who.name) notify(t("signin.done", { name: known.who.name }), "good");
    },
  });
}

/** Forgets the token. */
export async function forgetToken() {
  signOut();
  await loadWho();
  notify(t("signin.forgotten"));
}
