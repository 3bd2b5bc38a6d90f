// Says things in the chosen language: messages by key (en.js, zh.js), numbers, times and sizes by Intl.
// Captions of the API are translated by phrase (zh-phrases.js); its sentences (reasons, errors) stay English. The time is the server's (`tellTime`), so that
// "12 seconds ago" is right where the browser's clock is not.

import { en } from "./en.js";
import { zh } from "./zh.js";
import { phrases } from "./zh-phrases.js";
import { preference } from "./preferences.js";

const MESSAGES = { en, zh };
const PHRASES = { en: {}, zh: phrases };
const LOCALES = { en: "en-GB", zh: "zh-CN" };
const made = new Map();
let skew = 0;

/** The message of a key, with {names} filled in; of one with plural forms, the form that fits `count`. */
export function t(key, values = {}) {
  const message = MESSAGES[preference("language")][key] ?? key;
  const form = typeof message === "string" ? message : message[plural(values.count)] ?? message.other;
  return form.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? shown(values[name]) : whole));
}

/** The word for a value of the API, such as a step's name; a value that has no word is shown as it is. */
export function word(family, value) {
  return MESSAGES[preference("language")][`${family}.${value}`] ?? value;
}

/** A short English text of the API in the chosen language; without a translation it stays English. */
export function phrase(text) {
  return PHRASES[preference("language")][text] ?? text;
}

export function locale() {
  return LOCALES[preference("language")];
}

function shown(value) {
  return typeof value === "number" ? number(value) : String(value);
}

function intl(kind, options) {
  const key = `${locale()} ${kind} ${JSON.stringify(options)}`;
  if (!made.has(key)) made.set(key, new Intl[kind](locale(), options));
  return made.get(key);
}

function plural(count) {
  return intl("PluralRules", {}).select(Number(count ?? 0));
}

export function number(value, digits = 0) {
  return intl("NumberFormat", { minimumFractionDigits: digits, maximumFractionDigits: digits }).format(value);
}

/** A percentage that is given as 0..100; a dash for what is not known. */
export function percent(value, digits = 0) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const options = { style: "percent", minimumFractionDigits: digits, maximumFractionDigits: digits };
  return intl("NumberFormat", options).format(value / 100);
}

/** Thousandths of a CPU, as cores. */
export function cores(milli) {
  return t("unit.cores", { value: number(milli / 1000, milli % 1000 === 0 ? 0 : 2) });
}

/** Bytes in the units that Kubernetes users read: Ki, Mi, Gi. */
export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  let left = value;
  while (left >= 1024 && at < units.length - 1) {
    left /= 1024;
    at += 1;
  }
  return `${number(left, left < 10 && at > 0 ? 1 : 0)} ${units[at]}`;
}

/** Notes what time it is at the server. */
export function tellTime(now) {
  skew = now - Date.now() / 1000;
}

/** What time it is at the server, in seconds. */
export function serverNow() {
  return Date.now() / 1000 + skew;
}

export function clock(time) {
  return intl("DateTimeFormat", { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" }).format(time * 1000);
}

export function moment(time) {
  return intl("DateTimeFormat", { dateStyle: "medium", timeStyle: "medium" }).format(time * 1000);
}

/** How long ago, or in how long, in the largest unit that fits. */
export function ago(time) {
  const seconds = time - serverNow();
  const size = Math.abs(seconds);
  const [unit, length] = size < 60 ? ["second", 1] : size < 3600 ? ["minute", 60] : size < 86400 ? ["hour", 3600] : ["day", 86400];
  return intl("RelativeTimeFormat", { numeric: "always", style: "short" }).format(Math.trunc(seconds / length), unit);
}

/** A length of time: 0.4 s, 12 s, 3 min 05 s, 2 h 10 min. */
export function duration(seconds) {
  if (seconds < 10) return t("unit.seconds", { value: number(seconds, 1) });
  if (seconds < 60) return t("unit.seconds", { value: number(Math.floor(seconds)) });
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return t("unit.minutes", { minutes, seconds: pad(Math.floor(seconds % 60)) });
  return t("unit.hours", { hours: Math.floor(minutes / 60), minutes: pad(minutes % 60) });
}

function pad(value) {
  return String(value).padStart(2, "0");
}
