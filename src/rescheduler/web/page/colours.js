// The heat map's colours: blues up to the threshold, orange to red above it. Blue against orange is told apart with every
// common kind of colour blindness, lightness alone gives the order, and what is hot also carries a mark.
// In the light theme more is darker, in the dark theme more is brighter: it always stands out from the ground.

// `paper` is --surface of tokens.css.
const SCALES = {
  light: {
    calm: ["#e6eef6", "#c3daf0", "#93bfe6", "#5a9ad3", "#2a6fb0"],
    hot: ["#f5a34a", "#e2701c", "#b3390c"],
    unknown: "#d5d9de",
    ink: "#14202b",
    paper: "#ffffff",
    mark: "#6a3fa0",
  },
  dark: {
    calm: ["#1a2b3d", "#214a70", "#2d6aa3", "#5294d1", "#93c3f0"],
    hot: ["#ffb35c", "#ff8a3c", "#ff5f3a"],
    unknown: "#3a424c",
    ink: "#f2f6fa",
    paper: "#141b23",
    mark: "#c9a6ff",
  },
};
const HIGHEST = 130;

/** A scale for a theme and a threshold: `at(percent)` is a colour, `onto(percent)` one that is legible upon it. */
export function scale(theme, threshold) {
  const { calm, hot, unknown, ink, paper, mark } = SCALES[theme];
  const colours = [];
  const inks = [];
  for (let value = 0; value <= HIGHEST; value += 1) {
    const rgb =
      value <= threshold ? blend(calm, value / Math.max(1, threshold)) : blend(hot, (value - threshold) / Math.max(5, 105 - threshold));
    colours.push(`rgb(${rgb.join(" ")})`);
    inks.push(luminance(rgb) > 0.19 ? "#0d1720" : "#ffffff"); // where both contrast alike
  }
  const index = (value) => Math.max(0, Math.min(HIGHEST, value <= threshold ? Math.floor(value) : Math.ceil(value)));
  return {
    threshold,
    unknown,
    ink,
    paper,
    mark,
    at: (value) => (Number.isFinite(value) ? colours[index(value)] : unknown),
    onto: (value) => (Number.isFinite(value) ? inks[index(value)] : ink),
  };
}

function blend(stops, part) {
  const place = Math.max(0, Math.min(1, part)) * (stops.length - 1);
  const low = Math.floor(place);
  const high = Math.min(stops.length - 1, low + 1);
  const [from, to] = [rgbOf(stops[low]), rgbOf(stops[high])];
  return from.map((value, channel) => Math.round(value + (to[channel] - value) * (place - low)));
}

function rgbOf(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

function luminance(rgb) {
  const [r, g, b] = rgb.map((value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
