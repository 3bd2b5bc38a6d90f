// All migrations that are known, with their steps as they happen: those under way first, then the newest.

import { el } from "./dom.js";
import { number, t, word } from "./i18n.js";
import { pagedList } from "./paging.js";
import { view } from "./pieces.js";
import { rightsNote } from "./session.js";
import { migrationRow } from "./steps.js";
import { known, migrationKey, migrationsInOrder, on } from "./store.js";

const KINDS = {
  all: () => true,
  moving: (row) => row.phase === "InProgress" || (row.phase === "Pending" && !row.awaitsApproval),
  awaiting: (row) => row.awaitsApproval,
  completed: (row) => row.phase === "Completed",
  failed: (row) => row.phase === "Failed",
};

export function show(signal) {
  const list = pagedList({
    container: el("div", { class: "migration-list" }),
    keyOf: migrationKey,
    build: (row) => migrationRow(row),
    empty: t("migrations.none"),
  });
  const filter = el("input", { type: "search", id: "migration-filter", class: "filter", placeholder: t("migrations.filter"), aria: { label: t("migrations.filter") }, on: { input: () => update(true) } });
  let kind = "all";
  const chips = Object.keys(KINDS).map((name) =>
    el("button", { type: "button", class: "chip", data: { kind: name }, aria: { pressed: String(name === kind) }, on: { click: () => choose(name) } },
      word("migrations.kind", name), el("b")));
  const more = el("p", { class: "dim" });
  const note = rightsNote("approve");

  const choose = (name) => {
    kind = name;
    for (const chip of chips) chip.setAttribute("aria-pressed", String(chip.dataset.kind === kind));
    update(true);
  };
  const update = (fromStart) => {
    const all = migrationsInOrder();
    for (const chip of chips) chip.querySelector("b").textContent = number(all.filter(KINDS[chip.dataset.kind]).length);
    const text = filter.value.trim().toLowerCase();
    const says = (row) => `${row.namespace}/${row.name} ${row.pod} ${row.source} ${row.target} ${row.strategy} ${row.workload} ${row.message}`.toLowerCase();
    const shown = all.filter((row) => KINDS[kind](row) && (!text || says(row).includes(text)));
    list.show(shown, fromStart === true);
    more.textContent = known.more > 0 ? t("migrations.more", { count: known.more }) : "";
    noteBox.hidden = !all.some((row) => row.awaitsApproval);
    if (known.listed) root.dataset.loaded = "true";
  };
  const noteBox = el("div", { hidden: true }, note);
  const root = view("migrations", t("nav.migrations"), el("p", { class: "lead", text: t("migrations.about") }),
    el("div", { class: "filters" }, el("div", { class: "chips", role: "group", aria: { label: t("migrations.filter") } }, chips), filter), noteBox,
    el("div", { class: "card bare" }, list.element), more);
  update(true);
  on("migrations", () => update(false), signal);
  return root;
}
