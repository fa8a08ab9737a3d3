/**
 * Numbers, durations and times as the reader's language writes them.
 */
import { fill, gettext } from "#studio/text";

const language = () => globalThis.document?.documentElement.lang || "en";

/** The page knows a language; how its people write a time of day, their browser knows by region. */
function region() {
  const [own] = language().split("-");
  return globalThis.navigator?.languages?.find((one) => one.split("-")[0] === own) ?? language();
}

export const number = (value) => numbers().format(value);

/** @param {number} ms @returns {string} `less than 1 ms`, `4 ms`, `1.3 sec`, `2 min 5 sec` */
export function duration(ms) {
  if (ms < 1) return fill(gettext("less than %(time)s"), { time: unit(1, "millisecond") });
  if (ms < 1000) return unit(Math.round(ms), "millisecond");
  if (ms < 60_000) return unit(Math.round(ms / 100) / 10, "second");
  const seconds = Math.round(ms / 1000);
  return `${unit(Math.floor(seconds / 60), "minute")} ${unit(seconds % 60, "second")}`;
}

/** Whole seconds, for what ticks. */
export const seconds = (ms) => (ms < 60_000 ? unit(Math.floor(ms / 1000), "second") : duration(ms));

/** How long something has waited, as roughly as one asks. */
export function waited(ms) {
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 1) return unit(Math.max(0, Math.floor(ms / 1000)), "second");
  return minutes < 60 ? unit(minutes, "minute") : unit(Math.floor(minutes / 60), "hour");
}

export function cost(usd) {
  const digits = { minimumFractionDigits: 2, maximumFractionDigits: usd < 0.01 ? 6 : 4 };
  return numbers({ style: "currency", currency: "USD", ...digits }).format(usd);
}

/** @param {string|number} at ISO text, or milliseconds since the epoch. Today's times come without the date. */
export function moment(at, now = new Date()) {
  const date = new Date(at);
  const today = date.toDateString() === now.toDateString();
  const form = today ? { timeStyle: "medium" } : { dateStyle: "medium", timeStyle: "short" };
  return format("DateTimeFormat", region(), form).format(date);
}

function unit(value, name) {
  return numbers({ style: "unit", unit: name, unitDisplay: "short" }).format(value);
}

const formats = new Map();

const numbers = (options = {}) => format("NumberFormat", language(), options);

/** Making a format takes much longer than using it. */
function format(kind, locale, options) {
  const key = JSON.stringify([kind, locale, options]);
  if (!formats.has(key)) formats.set(key, new Intl[kind](locale, options));
  return formats.get(key);
}
