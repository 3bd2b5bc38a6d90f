// Finds nodes and pods by a part of their name: a combobox in the header. The server searches; a wish that was typed over
// is dropped, and its answer with it.

import { read } from "./api.js";
import { el, fill } from "./dom.js";
import { t } from "./i18n.js";
import { icon } from "./icons.js";
import { go, links } from "./router.js";

const PATIENCE = 180;

export function searchBox() {
  const input = el("input", {
    type: "search", id: "search", role: "combobox", autocomplete: "off", spellcheck: "false", placeholder: t("search.hint"),
    aria: { label: t("search.label"), expanded: "false", controls: "search-results", autocomplete: "list" },
  });
  const results = el("ul", { id: "search-results", class: "results", role: "listbox", aria: { label: t("search.label") }, hidden: true });
  let asking = null;
  let timer = 0;
  let at = -1;

  const options = () => [...results.querySelectorAll("[role=option]")];
  const unmark = () => {
    at = -1;
    input.removeAttribute("aria-activedescendant");
    options().forEach((option) => option.setAttribute("aria-selected", "false"));
  };
  const close = () => {
    asking?.abort(); // what is found later would cover the page
    window.clearTimeout(timer);
    results.hidden = true;
    input.setAttribute("aria-expanded", "false");
    unmark();
  };
  const mark = (index) => {
    const all = options();
    at = all.length === 0 ? -1 : (index + all.length) % all.length;
    all.forEach((option, place) => option.setAttribute("aria-selected", String(place === at)));
    if (at < 0) return;
    input.setAttribute("aria-activedescendant", all[at].id);
    all[at].scrollIntoView({ block: "nearest" });
  };
  const option = (link, kind, name, more, place) =>
    el("li", { role: "option", id: `result-${place}`, aria: { selected: "false" }, data: { result: link },
      on: { pointerdown: (event) => event.preventDefault(), click: () => open(link) } },
      el("span", { class: "badge", text: kind }), el("span", { class: "name", text: name }), el("span", { class: "dim", text: more }));
  const open = (link) => {
    close();
    input.value = "";
    input.blur();
    go(link);
  };
  const show = ({ nodes, pods, more }) => {
    const found = [
      ...nodes.map((name) => [links.node(name), t("search.node"), name, ""]),
      ...pods.map(({ namespace, name, node }) => [links.pod(namespace, name), t("search.pod"), `${namespace}/${name}`, node]),
    ];
    fill(results, found.map((each, place) => option(...each, place)),
      found.length === 0 ? el("li", { class: "empty", text: t("search.nothing") }) : null,
      more > 0 ? el("li", { class: "dim", text: t("list.more", { count: more }) }) : null);
    results.hidden = false;
    input.setAttribute("aria-expanded", "true");
    mark(0);
  };
  const ask = async () => {
    asking?.abort();
    const text = input.value.trim();
    if (!text) return close();
    asking = new AbortController();
    try {
      show(await read(`search?q=${encodeURIComponent(text)}`, asking.signal));
    } catch (error) {
      if (error.name === "AbortError") return undefined;
      fill(results, el("li", { class: "empty", text: error.message || t("error.unreachable") }));
      results.hidden = false;
    }
    return undefined;
  };
  input.addEventListener("input", () => {
    window.clearTimeout(timer);
    unmark(); // what was found for another text is not what Enter should open
    timer = window.setTimeout(ask, PATIENCE);
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") mark(at + 1);
    else if (event.key === "ArrowUp") mark(at - 1);
    else if (event.key === "Enter" && at >= 0 && !results.hidden) open(options()[at].dataset.result);
    else if (event.key === "Escape" && !results.hidden) close();
    else return;
    event.preventDefault();
  });
  input.addEventListener("blur", close);
  input.addEventListener("focus", () => input.value.trim() && ask());
  return el("div", { class: "search", role: "search" }, icon("search"), input, results);
}
