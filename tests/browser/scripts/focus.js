// Controls that look the same whether the keyboard is on them or not: no outline, shadow, border or colour of theirs,
// nor of what is around them, changes. Call it after a key was pressed, or the browser shows no focus at all.
() => {
  const looks = (element) =>
    [element, element.parentElement]
      .map((each) => getComputedStyle(each))
      .map((style) => [style.outlineStyle, style.outlineWidth, style.boxShadow, style.borderColor, style.backgroundColor, style.color].join())
      .join();
  const same = [];
  const before = document.activeElement;
  for (const element of document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex]")) {
    if (element.tabIndex < 0 || element.disabled || !element.checkVisibility({ visibilityProperty: true })) continue;
    before?.blur();
    element.blur();
    const without = looks(element);
    element.focus({ focusVisible: true, preventScroll: true });
    if (document.activeElement === element && looks(element) === without) same.push(element.outerHTML.slice(0, 100));
    element.blur();
  }
  return same;
}
