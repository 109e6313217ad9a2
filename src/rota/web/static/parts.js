// The small parts that screens are made of.

import { may } from "./api.js";
import { h } from "./dom.js";
import { span, whole } from "./format.js";
import { t } from "./words.js";

// State → how it looks. The word is always shown beside the colour.
const TONES = {
  good: ["online", "up", "running", "succeeded", "enabled", "leads", "info", "reading", "ready"],
  busy: ["dispatched", "accepted", "publishing", "draining", "moving", "pausing", "starting", "reloading"],
  warn: ["suspect", "warning", "pending", "timed out", "interrupted", "missed", "cordoned", "drained", "suspended", "stopping"],
  bad: ["offline", "down", "error", "failed", "lost", "gone", "unhealthy supervisor", "unhealthy tasks"],
};
const TONE = Object.fromEntries(Object.entries(TONES).flatMap(([tone, states]) => states.map((each) => [each, tone])));

export const tone = (state) => TONE[state] || "idle";

// A state as a word with its colour. `as` is the tone, where the word alone does not say it.
export function badge(state, as = tone(state), title) {
  return h("span", { class: `badge ${as}`, title }, h("i", { "aria-hidden": "true" }), t(`state.${state}`) === `state.${state}` ? state : t(`state.${state}`));
}

// How old an answer is.
export function age(source) {
  if (!source.at) return h("span", { class: "age" }, source.error ? t("no answer") : t("loading"));
  const seconds = Math.floor((Date.now() - source.at) / 1000);
  const text = seconds < 1 ? t("just now") : t("ago", { span: span(seconds) });
  return h("span", { class: `age ${source.isStale ? "is-stale" : ""}`, title: t("age.title") }, source.isStale ? `${t("stale")} · ${text}` : text);
}

// A part of a screen about one source: greyed while that is stale. `content` is asked for once there is an answer.
export function panel(title, source, content) {
  const isStale = source?.isStale;
  return h("section", { class: `panel ${isStale ? "stale" : ""}`, "aria-label": title },
    h("header", null, h("h2", null, title), source && age(source)),
    source && source.value === undefined ? waiting(source) : content());
}

export function waiting(source) {
  if (source.error) return h("p", { class: "trouble" }, source.error.message);
  return h("div", { class: "bones", "aria-label": t("loading") }, h("i"), h("i"), h("i"));
}

// Nothing to show, and what to do about it.
export function empty(text, command) {
  return h("div", { class: "empty" }, h("p", null, text), command && cli(command));
}

// The command that says or does the same.
export function cli(command) {
  return h("code", { class: "cli", title: t("cli.title") },
    h("span", { class: "words" }, command),
    h("button", {
      class: "copy", type: "button", "aria-label": t("copy"), title: t("copy"),
      onclick: (event) => copy(event.currentTarget, command),
    }, icon("copy")));
}

const SHAPES = {
  copy: "M5.5 5.5v-3h8v8h-3M2.5 5.5h8v8h-8z",
  leave: "M6.5 3H3v10h3.5M7 8h6.5M11 5.5 13.5 8 11 10.5",
  dark: "M13 9.6A5.5 5.5 0 0 1 6.4 3 5.5 5.5 0 1 0 13 9.6z",
  light: "M8 5.2A2.8 2.8 0 1 1 8 10.8 2.8 2.8 0 0 1 8 5.2M8 1v1.6M8 13.4V15M1 8h1.6M13.4 8H15M3 3l1.2 1.2M11.8 11.8 13 13M3 13l1.2-1.2M11.8 4.2 13 3",
};

// A small drawing; what it means is said by what it is in.
export const icon = (name) => h("svg", { class: "icon", viewBox: "0 0 16 16", width: "15", height: "15", "aria-hidden": "true" }, h("path", { d: SHAPES[name] }));

async function copy(button, text) {
  await navigator.clipboard?.writeText(text).catch(() => {});
  button.dataset.done = "true";
  setTimeout(() => delete button.dataset.done, 1_000);
}

// A figure with its name; `hint` says more when pointed at.
export function figure(name, value, { tone: as = "", hint, href, more } = {}) {
  const inside = [h("span", { class: "name" }, name), h("span", { class: "value" }, value), more && h("span", { class: "more" }, more)];
  return href ? h("a", { class: `figure ${as}`, href, title: hint }, inside) : h("div", { class: `figure ${as}`, title: hint }, inside);
}

// How much of something is used; `parts` are [share, class, title].
export function bar(parts, label) {
  return h("span", { class: "bar", role: "img", "aria-label": label, title: label },
    parts.map(([share, kind]) => h("i", { class: kind, style: { width: `${Math.min(100, Math.max(0, share * 100)).toFixed(1)}%` } })));
}

// Counts as columns; `items` are [name, count, title].
export function columns(items, label) {
  const most = Math.max(1, ...items.map(([, count]) => count));
  return h("div", { class: "columns", role: "img", "aria-label": label },
    items.map(([name, count, title]) => h("div", { key: name, title: title || `${name}: ${whole(count)}` },
      h("span", { class: "stem" }, h("i", { class: count ? "" : "none", style: { height: `${((count / most) * 100).toFixed(1)}%` } })),
      h("span", { class: "name" }, name))));
}

// Names and values.
export function facts(...pairs) {
  return h("dl", { class: "facts" }, pairs.filter(Boolean).map(([name, value]) => [h("dt", null, name), h("dd", null, value == null || value === "" || value.length === 0 ? "–" : value)]));
}

// Labels and tags.
export const chips = (pairs) => Object.entries(pairs || {}).map(([name, value]) => h("span", { class: "chip" }, `${name}=${value}`));

export const link = (href, ...content) => h("a", { href }, content);

export const button = (text, onclick, { kind = "", disabled = false, title } = {}) =>
  h("button", { type: "button", class: `button ${kind}`, onclick, disabled, title }, text);

// A button that changes something; whoever lacks the role that it `needs` sees it, and cannot press it.
export const verb = (text, onclick, { kind = "", disabled = false, needs = "operate" } = {}) =>
  button(text, onclick, { kind, disabled: disabled || !may(needs), title: may(needs) ? undefined : t(may("operate") ? "needs role" : "may only look", { role: needs }) });

// What there is to look at, in the order of the tabs.
const NEEDS = { audit: "admin" }; // screens that not everybody may see
export const mayOpen = (screen) => may(NEEDS[screen] || "view");
export const SCREENS = ["overview", "nodes", "placement", "resources", "services", "streams", "jobs", "events", "hooks", "audit"];

// Links to the places of things.
export const place = {
  node: (id) => `#/nodes/${encodeURIComponent(id)}`,
  resource: (kind, id) => `#/resources/${encodeURIComponent(kind)}/${encodeURIComponent(id)}`,
  job: (name) => `#/jobs/${encodeURIComponent(name)}`,
  run: (id) => `#/runs/${id.split("/").map(encodeURIComponent).join("/")}`,
  service: (node, name) => `#/services/${encodeURIComponent(node)}/${encodeURIComponent(name)}`,
  stream: (name) => `#/streams/${encodeURIComponent(name)}`,
};
