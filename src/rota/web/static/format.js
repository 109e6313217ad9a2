// Numbers, times and sizes as people read them.

import { language, t } from "./words.js";

const UNITS = [["d", 86_400], ["h", 3_600], ["m", 60], ["s", 1]];

// "3m 20s": at most two units, as the command line writes it.
export function span(seconds) {
  if (seconds == null || !Number.isFinite(seconds)) return "–";
  if (seconds < 1) return seconds <= 0 ? "0s" : `${Math.max(1, Math.round(seconds * 1000))}ms`;
  if (seconds < 10 && !Number.isInteger(seconds)) return `${seconds.toFixed(1)}s`;
  let rest = Math.round(seconds);
  const parts = [];
  for (const [unit, size] of UNITS) {
    const count = Math.floor(rest / size);
    if (count || parts.length) parts.push([count, unit]);
    rest -= count * size;
    if (parts.length === 2) break;
  }
  return parts.filter(([count]) => count).map(([count, unit]) => `${count}${unit}`).join(" ") || "0s";
}

export const whole = (number) => (number == null ? "–" : Math.round(number).toLocaleString(language()));

export function short(number) {
  if (number == null || !Number.isFinite(number)) return "–";
  if (Math.abs(number) < 10_000) return Number.isInteger(number) ? whole(number) : number.toFixed(1);
  const [size, unit] = Math.abs(number) < 1e6 ? [1e3, "k"] : Math.abs(number) < 1e9 ? [1e6, "M"] : [1e9, "G"];
  return `${(number / size).toFixed(1)}${unit}`;
}

export function bytes(number) {
  if (number == null) return "–";
  if (number < 1024) return `${number} B`;
  for (const unit of ["KiB", "MiB", "GiB"]) {
    number /= 1024;
    if (number < 1024 || unit === "GiB") return `${number.toFixed(number < 10 ? 1 : 0)} ${unit}`;
  }
}

export const percent = (share) => (share == null ? "–" : `${Math.round(share * 100)}%`);

const pad = (number) => String(number).padStart(2, "0");

export function clock(moment) {
  if (!moment) return "–";
  const at = new Date(moment);
  return `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
}

// The time alone today, the day with it otherwise.
export function when(moment) {
  if (!moment) return "–";
  const at = new Date(moment);
  if (at.toDateString() === new Date().toDateString()) return clock(moment);
  const year = at.getFullYear() === new Date().getFullYear() ? "" : `${at.getFullYear()}-`;
  return `${year}${pad(at.getMonth() + 1)}-${pad(at.getDate())} ${pad(at.getHours())}:${pad(at.getMinutes())}`;
}

export const secondsSince = (moment) => (Date.now() - new Date(moment)) / 1000;

export const ago = (moment) => (moment ? t("ago", { span: span(Math.max(0, Math.floor(secondsSince(moment)))) }) : "–");

export function until(moment) {
  const seconds = Math.floor(-secondsSince(moment));
  return seconds < 0 ? t("now") : t("in", { span: span(seconds) });
}

// A word of a command line, quoted where a shell would read more into it.
export const word = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);
