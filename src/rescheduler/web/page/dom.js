// Makes elements. Every text that comes from the cluster goes through here, as a text node and never as markup,
// so a pod that is named like a tag is shown as it is named. Used by every view.

const SVG = "http://www.w3.org/2000/svg";

/**
 * An element. Properties: `class`, `text`, `on` (event → listener), `data` (data-…), `aria` (aria-…), `style` (CSSOM);
 * anything else is an attribute, left out when it is null, undefined or false. Children: elements, texts, nulls, lists.
 */
export function el(tag, properties = {}, ...children) {
  return filled(document.createElement(tag), properties, children);
}

/** The same for SVG. */
export function svg(tag, properties = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), properties, children);
}

function filled(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") element.setAttribute("class", value);
    else if (name === "text") element.textContent = value;
    else if (name === "on") for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (name === "data") for (const [key, item] of Object.entries(value)) element.dataset[key] = item;
    else if (name === "aria") for (const [key, item] of Object.entries(value)) element.setAttribute(`aria-${key}`, item);
    else if (name === "style") for (const [key, item] of Object.entries(value)) element.style.setProperty(key, item);
    else element.setAttribute(name, value === true ? "" : value);
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children) {
    if (Array.isArray(child)) append(element, child);
    else if (child !== null && child !== undefined && child !== false) element.append(child);
  }
}

/** Puts these in the place of all that an element holds. */
export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

/** Sets a text only where it differs, so that screen readers are not told the same twice. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * Shows a list by key. What has not changed (the very same item) keeps its element, so that focus, an opened part and
 * a selected text survive a live update; what has changed is built anew, and focus goes to the same place in it.
 */
export function keyed(container, items, keyOf, build) {
  const before = container.shown ?? new Map();
  const focused = container.contains(document.activeElement) ? document.activeElement : null;
  const now = new Map();
  let place = container.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    const old = before.get(key);
    let element = old?.element;
    if (!old || old.item !== item) {
      element = build(item);
      if (old) swap(old.element, element);
      if (place === old?.element) place = element;
    }
    now.set(key, { item, element });
    if (element === place) place = place.nextElementSibling;
    else container.insertBefore(element, place);
  }
  for (const [key, { element }] of before) if (!now.has(key) && element.parentNode === container) element.remove();
  container.shown = now;
  // An element that is put elsewhere loses focus on the way.
  if (focused?.isConnected && document.activeElement !== focused && !container.contains(document.activeElement)) focused.focus({ preventScroll: true });
}

function swap(old, fresh) {
  const focusable = "a[href], button, input, select, summary, [tabindex]";
  const at = old.contains(document.activeElement)
    ? [old, ...old.querySelectorAll(focusable)].indexOf(document.activeElement)
    : -1;
  old.replaceWith(fresh);
  if (at >= 0) [fresh, ...fresh.querySelectorAll(focusable)][at]?.focus({ preventScroll: true });
}
