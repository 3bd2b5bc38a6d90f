// Controls that a screen reader has no name for, pictures without a text, and ids that are there twice.
() => {
  const wrong = [];
  const seen = (element) => element.checkVisibility({ visibilityProperty: true }) && !element.closest("[aria-hidden=true]");
  for (const element of document.querySelectorAll("a[href], button, input, select, textarea, canvas, [role=img]")) {
    if (!seen(element)) continue;
    const labels = [...(element.labels ?? [])].map((label) => label.textContent);
    const by = (element.getAttribute("aria-labelledby") ?? "").split(" ").map((id) => document.getElementById(id)?.textContent);
    const names = [element.getAttribute("aria-label"), element.title, ...labels, ...by];
    if (!element.matches("input, select, textarea, canvas")) names.push(element.textContent);
    if (!names.some((name) => name?.trim())) wrong.push(`without a name: ${element.outerHTML.slice(0, 120)}`);
  }
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  for (const id of new Set(ids.filter((id, place) => ids.indexOf(id) !== place))) wrong.push(`twice: #${id}`);
  if (!document.documentElement.lang) wrong.push("<html> has no lang");
  if (!document.title) wrong.push("the page has no title");
  if (document.querySelectorAll("main, [role=main]").length !== 1) wrong.push("there is not exactly one <main>");
  if (document.querySelectorAll("h1").length !== 1) wrong.push("there is not exactly one <h1>");
  return wrong;
}
