// The actions of the page as people meet them: the question before, what is sent, and what is said afterwards.

import { field, openDialog } from "./dialogs.js";
import { el } from "./dom.js";
import { t } from "./i18n.js";
import { icon } from "./icons.js";
import { actionButton, perform } from "./session.js";

const MOST_AT_ONCE = 1_000; // that the server takes with one request

/** Asks for a reason, then pauses rescheduling. */
export function askPause() {
  const reason = el("input", { type: "text", id: "reason", maxlength: "200", data: { first: "" } });
  openDialog({
    kind: "confirm",
    title: t("pause.title"),
    ok: t("pause.ok"),
    danger: true,
    body: [el("p", { text: t("pause.about") }), field(t("pause.reason"), reason, t("pause.hint"))],
    submit: () => perform("pause", { reason: reason.value.trim() }),
  });
}

/** Asks, then resumes. */
export function askResume() {
  openDialog({
    kind: "confirm",
    title: t("resume.title"),
    ok: t("resume.ok"),
    body: [el("p", { text: t("resume.about") })],
    submit: () => perform("resume", {}),
  });
}

/** Asks, then approves these migrations. */
export function askApprove(rows) {
  openDialog({
    kind: "confirm",
    title: t("approve.title", { count: rows.length }),
    ok: t("approve.ok"),
    body: [
      el("p", { text: t("approve.about") }),
      el("ul", { class: "plain-list" }, rows.slice(0, 10).map((row) => el("li", {}, el("code", { text: `${row.namespace}/${row.pod}` })))),
      rows.length > 10 ? el("p", { class: "dim", text: t("list.more", { count: rows.length - 10 }) }) : null,
    ],
    submit: async () => {
      const migrations = rows.map(({ namespace, name }) => ({ namespace, name }));
      for (let first = 0; first < migrations.length; first += MOST_AT_ONCE) {
        await perform("approve", { migrations: migrations.slice(first, first + MOST_AT_ONCE) });
      }
    },
  });
}

/** The button that approves one migration. */
export function approveButton(row) {
  return actionButton({
    action: "approve",
    right: "approve",
    label: t("approve.one"),
    icon: icon("check"),
    look: "small",
    press: () => askApprove([row]),
  });
}

/** Asks, then begins a migration. */
export function askMigrate({ namespace, pod, target, method }) {
  const where = target ? t("migrate.to", { target }) : t("migrate.anywhere");
  openDialog({
    kind: "confirm",
    title: t("migrate.title"),
    ok: t("migrate.ok"),
    body: [el("p", {}, el("code", { text: `${namespace}/${pod}` })), el("p", { text: where }), el("p", { class: "dim", text: t("migrate.about") })],
    submit: () => perform("migrate", { namespace, pod, target, method }),
  });
}

/** The button that puts a node under maintenance, or takes it back. */
export function maintenanceButton(node, on) {
  return actionButton({
    action: on ? "maintenance-on" : "maintenance-off",
    right: "maintenance",
    label: on ? t("maintenance.on") : t("maintenance.off"),
    icon: icon("wrench"),
    press: () =>
      openDialog({
        kind: "confirm",
        title: on ? t("maintenance.on") : t("maintenance.off"),
        ok: on ? t("maintenance.on") : t("maintenance.off"),
        danger: on,
        body: [el("p", {}, el("code", { text: node })), el("p", { text: on ? t("maintenance.aboutOn") : t("maintenance.aboutOff") })],
        submit: () => perform("maintenance", { node, on }),
      }),
  });
}
