// Every text that can be seen and whose contrast with what is behind it is less than WCAG 2.2 AA asks for
// (4.5, or 3 for large text): [{text, where, ratio, needed, ink, paper}]. Handed to Playwright's `evaluate`.
() => {
  const pixel = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const known = new Map();

  // Any CSS colour as [red, green, blue, alpha], by painting it: computed styles come in many notations.
  function channels(colour) {
    if (!known.has(colour)) {
      pixel.clearRect(0, 0, 1, 1);
      pixel.fillStyle = colour;
      pixel.fillRect(0, 0, 1, 1);
      const [red, green, blue, alpha] = pixel.getImageData(0, 0, 1, 1).data;
      known.set(colour, [red, green, blue, alpha / 255]);
    }
    return known.get(colour);
  }

  function over([r, g, b, a], [under_r, under_g, under_b]) {
    const mix = (top, bottom) => top * a + bottom * (1 - a);
    return [mix(r, under_r), mix(g, under_g), mix(b, under_b), 1];
  }

  function luminance([r, g, b]) {
    const linear = (value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  }

  function ratio(one, other) {
    const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (light + 0.05) / (dark + 0.05);
  }

  // What is behind the letters of this element, and how far it is see-through itself.
  function paper(element) {
    const layers = [];
    let opacity = 1;
    for (let each = element; each; each = each.parentElement) {
      const style = getComputedStyle(each);
      opacity *= Number(style.opacity);
      layers.push(channels(style.backgroundColor));
    }
    const start = channels("Canvas");
    return { colour: layers.reverse().reduce((under, layer) => over(layer, under), start), opacity };
  }

  function isSeen(element) {
    const box = element.getBoundingClientRect();
    if (box.width <= 1 || box.height <= 1) return false; // for screen readers only
    if (element.closest("[disabled]")) return false; // WCAG asks nothing of controls that are off
    return element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  }

  function where(element) {
    const parts = [];
    for (let each = element; each && each !== document.body && parts.length < 4; each = each.parentElement) {
      parts.unshift(each.localName + (each.id ? `#${each.id}` : [...each.classList].map((name) => `.${name}`).join("")));
    }
    return parts.join(" > ");
  }

  const weak = [];
  function check(element, text, colour) {
    const behind = paper(element);
    const [r, g, b, a] = channels(colour);
    const ink = over([r, g, b, a * behind.opacity], behind.colour);
    const style = getComputedStyle(element);
    const size = parseFloat(style.fontSize);
    const needed = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
    const found = ratio(ink, behind.colour);
    if (found < needed - 0.005) {
      const show = (colours) => colours.slice(0, 3).map(Math.round).join(",");
      const rounded = Math.round(found * 100) / 100;
      weak.push({ text: text.slice(0, 40), where: where(element), ratio: rounded, needed, ink: show(ink), paper: show(behind.colour) });
    }
  }

  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    const text = texts.currentNode.data.trim();
    if (!text || element.closest("script, style, noscript, datalist, option, canvas, title") || !isSeen(element)) continue;
    const style = getComputedStyle(element);
    check(element, text, element instanceof SVGElement ? style.fill : style.color);
  }
  for (const field of document.querySelectorAll("input, select, textarea")) {
    if (!isSeen(field)) continue;
    check(field, field.value || "(value)", getComputedStyle(field).color);
    if (field.placeholder) check(field, field.placeholder, getComputedStyle(field, "::placeholder").color);
  }
  return weak;
}
