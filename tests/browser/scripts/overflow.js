// What makes the document wider than its window: nothing if it is not.
() => {
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= width) return [];
  const wide = [...document.body.querySelectorAll("*")].filter((element) => element.getBoundingClientRect().right > width + 1);
  const told = wide.slice(0, 6).map((element) => `${element.localName}${element.id && `#${element.id}`}.${element.className?.baseVal ?? element.className}`);
  return [`${document.documentElement.scrollWidth} px in a window of ${width}`, ...told];
}
