// The page's one modal dialog: questions before an action, and (for others to fill) sign-in and help.
// It is a <dialog>, so the browser keeps focus in it, closes it on Escape and gives focus back afterwards.

import { el, fill } from "./dom.js";
import { t } from "./i18n.js";
import { notify } from "./notice.js";

/**
 * Opens it. `kind` names it for tests and styles, `body` are its elements, `ok` the text of its button (none: only
 * close), `submit` what the button does: it may return false, or throw (the message is shown), to keep it open.
 */
export function openDialog({ kind, title, body, ok, danger, submit }) {
  const dialog = document.getElementById("dialog");
  if (dialog.open) dialog.close();
  const problem = el("p", { class: "problem", role: "alert" });
  const cancel = el("button", {
    type: "button",
    id: "dialog-cancel",
    class: "button",
    text: ok ? t("dialog.cancel") : t("dialog.close"),
    on: { click: () => dialog.close() },
  });
  const confirm = ok
    ? el("button", { type: "submit", id: "dialog-ok", class: danger ? "button danger" : "button primary", text: ok })
    : null;
  const form = el(
    "form",
    { method: "dialog", novalidate: true, autocomplete: "off" },
    el("h2", { id: "dialog-title", text: title }),
    body,
    problem,
    el("div", { class: "dialog-buttons" }, cancel, confirm),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (!confirm || confirm.disabled) return;
    confirm.disabled = true;
    problem.textContent = "";
    try {
      if ((await submit()) !== false && form.isConnected) dialog.close(); // not another one that was opened meanwhile
    } catch (error) {
      const why = error.message || t("error.unreachable");
      problem.textContent = why;
      if (!form.isConnected || !dialog.open) notify(why, "bad"); // whoever closed it still has to know
    } finally {
      confirm.disabled = false;
    }
  });
  dialog.dataset.dialog = kind;
  fill(dialog, form);
  dialog.showModal();
  (form.querySelector("[data-first]") ?? confirm ?? cancel).focus();
}

/** A labelled field for a dialog or a form. */
export function field(label, control, hint) {
  return el(
    "label",
    { class: "field" },
    el("span", { class: "field-label", text: label }),
    control,
    hint ? el("span", { class: "field-hint", text: hint }) : null,
  );
}
