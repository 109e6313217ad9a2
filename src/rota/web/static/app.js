// The dashboard: which screen is shown, what stands around it, and the way in.

import { comeBack, comeIn, goOut, isIn, onTurnedAway } from "./api.js";
import { toast } from "./dialog.js";
import { h, render } from "./dom.js";
import { adopt } from "./filters.js";
import { concerns, overview } from "./fleet.js";
import { span } from "./format.js";
import { isLive, onChange, show, start, stop } from "./live.js";
import { badge, cli, icon, mayOpen, SCREENS } from "./parts.js";
import { closeSearch, isSearching, openSearch, searchBox } from "./search.js";
import { language, LANGUAGES, speak, t } from "./words.js";

const ALSO = { runs: "jobs" }; // screens that are reached from another

const root = document.getElementById("app");
const loaded = {};

let where = { screen: "overview", args: [] };
let isAsked = false; // has a frame been asked for?
let why = ""; // the way in is barred

function read() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [screen, ...args] = path.split("/").map(decoded);
  return (SCREENS.includes(screen) && mayOpen(screen)) || screen in ALSO ? { screen, args, query } : { screen: "overview", args: [] };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // somebody typed it
  }
}

const load = (screen) => import(`./screens/${screen}.js`);

async function go() {
  const there = read();
  closeSearch();
  try {
    loaded[there.screen] ??= (await load(there.screen)).default;
  } catch {
    toast(t("no answer"), "bad");
    return;
  }
  loaded[where.screen]?.leave?.();
  where = there;
  if (loaded[where.screen].filters && !where.args.length) adopt(loaded[where.screen].filters, where.query);
  loaded[where.screen].enter?.(where.args);
  scrollTo(0, 0);
  draw();
  document.getElementById(`tab-${ALSO[where.screen] || where.screen}`)?.scrollIntoView({ block: "nearest", inline: "center" });
}

function redraw() {
  if (isAsked) return;
  isAsked = true;
  requestAnimationFrame(draw);
}

function draw() {
  isAsked = false;
  if (!isIn()) {
    render(root, wayIn());
    return;
  }
  const screen = loaded[where.screen];
  if (!screen) return;
  show([overview, ...screen.sources(where.args)]); // what is shown may depend on what has come
  document.title = `${t(`screen.${ALSO[where.screen] || where.screen}`)} · Rota`;
  render(root,
    h("header", { class: "top" }, brand(), leader(), h("span", { class: "space" }), pulseSign(), searchButton(), choices()),
    h("nav", { "aria-label": t("screens") }, SCREENS.filter(mayOpen).map(tab)),
    h("main", { key: where.screen, id: `screen-${where.screen}` },
      alarm(),
      h("div", { class: "heading" },
        h("h1", null, screen.title?.(where.args) || t(`screen.${where.screen}`)),
        cli(screen.command(where.args))),
      screen.view(where.args)),
    isSearching() && searchBox());
}

function tab(name) {
  const isHere = (ALSO[where.screen] || where.screen) === name;
  const count = name === "overview" ? serious() : 0;
  return h("a", { key: name, href: `#/${name}`, "aria-current": isHere ? "page" : null, id: `tab-${name}` },
    t(`screen.${name}`), count > 0 && h("span", { class: "count", title: t("concerns.title") }, count));
}

// As many as the overview lists.
const serious = () => concerns().length + (overview.value?.concerns_left_out || 0);

const brand = () => h("a", { class: "brand", href: "#/overview" }, h("img", { src: "/static/icon.svg", alt: "", width: "20", height: "20" }), "Rota");

// What nobody should overlook, whatever they look at.
function alarm() {
  const open = overview.value?.insecure || [];
  return open.length > 0 && h("p", { class: "alarm", role: "alert" }, t("insecure", { nodes: open.join(", ") }));
}

function leader() {
  const seen = overview.value;
  if (!seen) return null;
  const by = seen.leader;
  const text = by ? [h("b", null, by.node), " ", t("leads"), h("span", { class: "wide" }, ` · ${t("term")} ${by.term} · ${span(by.age_s)}`)] : badge("nobody leads", "bad");
  return h("a", { class: `leader ${overview.isStale ? "stale" : ""}`, href: by ? `#/nodes/${encodeURIComponent(by.node)}` : "#/overview" }, text);
}

function pulseSign() {
  if (isLive() && !overview.isStale) return badge("live", "good", t("live.title"));
  return badge(overview.error ? "no answer" : "connecting", overview.isStale ? "bad" : "warn", overview.error?.message);
}

const searchButton = () => h("button", { class: "button search-open", type: "button", onclick: openSearch, "aria-keyshortcuts": "/" }, h("span", { class: "wide" }, t("search")), h("kbd", null, "/"));

function choices() {
  const dress = theme() === "dark" ? "light" : "dark";
  return h("span", { class: "choices" }, languages(),
    small(t(dress), icon(dress), () => { wear(dress); redraw(); }),
    small(t("leave"), icon("leave"), leave));
}

const small = (title, content, onclick) => h("button", { class: "button plain", type: "button", title, "aria-label": title, onclick }, content);

// A button for each language that is not spoken. It shows the code: a system need not have the letters of every language.
function languages() {
  return Object.entries(LANGUAGES).filter(([code]) => code !== language()).map(([code, [name]]) =>
    h("button", { key: code, class: "button plain", type: "button", lang: code, title: name, "aria-label": name, onclick: () => { speak(code); redraw(); } }, code.toUpperCase()));
}

// Light and dark: as the system has it, until somebody chooses.

const DRESS = "rota.theme";
const theme = () => localStorage.getItem(DRESS) || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");

function wear(which) {
  if (which) localStorage.setItem(DRESS, which);
  document.documentElement.dataset.theme = theme();
}

// The way in

function wayIn() {
  return h("form", { class: "way-in", onsubmit: enter },
    h("h1", null, h("img", { src: "/static/icon.svg", alt: "", width: "28", height: "28" }), "Rota"),
    h("p", null, t("token.why")),
    h("label", null, t("token"), h("input", { name: "token", type: "password", required: true, autocomplete: "off", spellcheck: "false", made: (element) => queueMicrotask(() => element.focus()) })),
    why && h("p", { class: "trouble", role: "alert" }, why),
    h("button", { class: "button primary", type: "submit" }, t("token.enter")),
    h("p", { class: "hint" }, t("token.where"), " ", h("code", null, "cat .rota/up/token")));
}

async function enter(event) {
  event.preventDefault();
  try {
    await comeIn(new FormData(event.target).get("token").trim());
  } catch (error) {
    why = error.message;
    return redraw();
  }
  why = "";
  begin();
}

async function leave() {
  stop();
  await goOut();
  location.reload();
}

function begin() {
  start();
  go();
}

onTurnedAway(() => {
  stop();
  why = t("token.unknown");
  redraw();
});

onChange(redraw);
addEventListener("hashchange", () => isIn() && go());
addEventListener("scroll", redraw, { passive: true });
addEventListener("resize", redraw, { passive: true });
addEventListener("keydown", (event) => {
  const isTyping = event.target.closest?.("input, select, textarea, dialog");
  if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey && isIn()) {
    event.preventDefault();
    openSearch();
  }
});
addEventListener("rota:redraw", redraw);
setInterval(() => document.hidden || redraw(), 1_000); // ages

wear();
load(read().screen).catch(() => {}); // while the session is asked for
await comeBack();
if (isIn()) begin();
else draw();
