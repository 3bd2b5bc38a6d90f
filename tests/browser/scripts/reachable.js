// What somebody could want to use on this view: every control and link that can be seen, each with a number that it
// keeps (`dataset.reached` of what the keyboard must come to). Gives [{number, what}].
() => {
  const found = [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex]")].filter(
    (element) =>
      element.tabIndex >= 0 &&
      !element.disabled &&
      !element.closest("[inert]") &&
      element.checkVisibility({ visibilityProperty: true }),
  );
  return found.map((element, number) => {
    element.dataset.reachable = String(number);
    const label = element.id || element.getAttribute("aria-label") || element.textContent.trim();
    return { number, what: `${element.localName} ${label.slice(0, 40)}` };
  });
}
