// Controls whose middle, once scrolled to, belongs to something else that lies over it.
() => {
  const over = [];
  for (const element of document.querySelectorAll("a[href], button, input, select, textarea, summary")) {
    if (!element.checkVisibility({ visibilityProperty: true }) || element.closest(".unseen, .skip")) continue;
    element.scrollIntoView({ block: "center", inline: "center", behavior: "instant" });
    const [box] = element.getClientRects();
    if (!box || box.width <= 1) continue;
    const top = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
    if (!top || element.contains(top) || top.contains(element) || [...(element.labels ?? [])].some((label) => label.contains(top))) continue;
    over.push(`${element.outerHTML.slice(0, 80)} is under ${top.outerHTML.slice(0, 60)}`);
  }
  scrollTo(0, 0);
  return over;
}
