// Search by keyboard: "/" opens it, arrows choose, Enter goes there.

import { get, part } from "./api.js";
import { h } from "./dom.js";
import { mayOpen, place, SCREENS } from "./parts.js";
import { t } from "./words.js";

let isOpen = false;
let text = "";
let found = [];
let at = 0;
let known = { nodes: [], jobs: [] };
let asked = 0;
let before = null;

export const isSearching = () => isOpen;

const redraw = () => dispatchEvent(new Event("rota:redraw"));

export function openSearch() {
  if (isOpen) return;
  before = document.activeElement;
  [isOpen, text, at] = [true, "", 0];
  look();
  redraw();
  Promise.all([get("/v1/nodes"), get("/v1/jobs?limit=1000")]).then(([nodes, jobs]) => {
    known = { nodes: nodes.nodes, jobs: jobs.jobs };
    look();
  }).catch(() => {});
}

export function closeSearch() {
  if (!isOpen) return;
  isOpen = false;
  before?.focus?.();
  redraw();
}

function local() {
  const wanted = text.toLowerCase();
  const all = [
    ...SCREENS.filter(mayOpen).map((name) => ({ sort: t("screens"), name: t(`screen.${name}`), href: `#/${name}` })),
    ...known.nodes.map((node) => ({ sort: t("node"), name: node.id, href: place.node(node.id) })),
    ...known.jobs.map((job) => ({ sort: t("job"), name: job.name, href: place.job(job.name) })),
  ];
  return all.filter((each) => each.name.toLowerCase().includes(wanted)).slice(0, 12);
}

async function look() {
  const mine = (asked += 1);
  found = local();
  at = 0;
  redraw();
  if (!text) return;
  const [kind, slash, id] = text.split(/(\/)/);
  const query = slash ? `kind=${part(kind)}&prefix=${part(id || "")}` : `prefix=${part(text)}`;
  const page = await get(`/v1/resources?${query}&limit=12`).catch(() => ({ resources: [] }));
  if (mine !== asked) return;
  found = [...local(), ...page.resources.map((each) => ({ sort: t("resource"), name: `${each.kind}/${each.id}`, href: place.resource(each.kind, each.id) }))];
  redraw();
}

function press(event) {
  if (event.key === "Escape") closeSearch();
  else if (event.key === "ArrowDown") at = Math.min(found.length - 1, at + 1);
  else if (event.key === "ArrowUp") at = Math.max(0, at - 1);
  else if (event.key === "Enter" && found[at]) {
    const { href } = found[at];
    closeSearch();
    location.hash = href;
  } else return;
  event.preventDefault();
  redraw();
}

export function searchBox() {
  return h("div", { key: "search", class: "search", onclick: (event) => event.target === event.currentTarget && closeSearch() },
    h("div", { class: "box", role: "dialog", "aria-label": t("search") },
      h("input", {
        type: "search", placeholder: t("search.placeholder"), "aria-label": t("search"), value: text, autocomplete: "off",
        spellcheck: "false", made: (element) => queueMicrotask(() => element.focus()),
        oninput: (event) => { text = event.target.value; look(); }, onkeydown: press,
      }),
      h("ul", { role: "listbox" }, found.map((each, number) => h("li", { key: each.href, role: "option", "aria-selected": number === at ? "true" : "false" },
        h("a", { href: each.href, tabindex: "-1" }, h("span", { class: "sort" }, each.sort), each.name)))),
      !found.length && h("p", { class: "hint" }, t("search.nothing"))));
}
