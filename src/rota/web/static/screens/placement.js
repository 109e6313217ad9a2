// Who runs where: a square for each task, by what it is, how busy its node is, or how it stands. And what would happen if.

import { get, part } from "../api.js";
import { h } from "../dom.js";
import { choose } from "../filters.js";
import { nodes, nodesOf } from "../fleet.js";
import { whole } from "../format.js";
import { resources } from "../live.js";
import { badge, button, empty, facts, link, panel, place, waiting } from "../parts.js";
import { table } from "../table.js";
import { t } from "../words.js";
import { loadBar, state as nodeState } from "./nodes.js";
import { state } from "./resources.js";

const MOST = 3000; // squares; beyond that, counts by kind
const HUES = 8;
const BY = { kind: "by kind", load: "by load", state: "by state" };

const wanted = { by: "" };
const by = () => wanted.by || "kind";
let plan = null; // the last answer to "what if"
let asked = "";

const redraw = () => dispatchEvent(new Event("rota:redraw"));

export default {
  filters: wanted,
  command: () => "rota plan",
  sources: () => [nodes, resources],
  view: () => [panel(t("placement map"), nodes, map), whatIf()],
};

function map() {
  const all = nodes.value.nodes;
  if (!all.length) return empty(t("no nodes"), "rota node --store URL app.py");
  if (!resources.isSynced) return waiting(resources); // half a map would lie
  const seen = (resources.value || []).filter((each) => each.status);
  const kinds = [...new Set(seen.map((each) => each.kind))].sort();
  const held = new Map(all.map((node) => [node.id, []]));
  for (const each of seen) for (const node of nodesOf(each.status)) held.get(node)?.push(each);
  const count = [...held.values()].reduce((sum, tasks) => sum + tasks.length, 0);
  const sorted = by() === "load" ? [...all].sort((a, b) => (b.load?.score ?? -1) - (a.load?.score ?? -1)) : all;
  return [
    h("div", { class: "filters" },
      h("select", { "aria-label": t("coloured by"), value: by(), onchange: (event) => choose(wanted, "by", event.target.value) },
        Object.entries(BY).map(([each, name]) => h("option", { key: each, value: each }, t(name)))),
      h("span", { class: "dim num" }, t("n tasks on m nodes", { tasks: whole(count), nodes: whole(all.length) })),
      by() === "kind" && h("span", { class: "legend" }, kinds.slice(0, HUES).map((kind, at) => [h("i", { class: `hue${at}` }), kind]))),
    h("div", { class: "map" }, sorted.map((node) => box(node, held.get(node.id), kinds, count))),
  ];
}

function box(node, tasks, kinds, count) {
  return h("section", { key: node.id, class: `box ${node.is_up ? "" : "gone"}` },
    h("header", null, link(place.node(node.id), node.id), node.leads && h("span", { class: "crown", title: t("leads") }, "★"), h("span", { class: "space" }), badge(nodeState(node))),
    h("p", { class: "load" }, loadBar(node.load), h("span", { class: "num" }, `${node.used}/${node.slots}`)),
    count <= MOST
      ? h("div", { class: "squares" }, tasks.map((each) => square(each, node, kinds)))
      : facts(...kinds.map((kind) => [kind, whole(tasks.filter((each) => each.kind === kind).length)])),
    !tasks.length && h("p", { class: "hint" }, t("no tasks here")));
}

function square(each, node, kinds) {
  const tones = { kind: `hue${kinds.indexOf(each.kind) % HUES}`, load: `heat${Math.min(4, Math.floor((node.load?.score ?? 0) / 20))}`, state: `is-${state(each)}` };
  return h("a", { key: each.name, class: tones[by()], href: place.resource(each.kind, each.id), title: `${each.name} · ${t(`state.${state(each)}`)}`, "aria-label": each.name });
}

function whatIf() {
  const all = nodes.value?.nodes || [];
  return h("section", { class: "panel", "aria-label": t("what if") },
    h("header", null, h("h2", null, t("what if")), plan && h("span", { class: "age" }, t("on paper"))),
    h("div", { class: "filters" },
      button(t("as it is"), () => ask("", "rota plan")),
      button(t("balanced"), () => ask("?rebalance=true", "rota plan --rebalance")),
      button(t("one more node"), () => ask("?add=1", "rota plan --add 1")),
      h("select", { "aria-label": t("without a node"), value: "", onchange: (event) => event.target.value && ask(`?without=${part(event.target.value)}`, `rota plan --without ${event.target.value}`) },
        h("option", { value: "" }, t("without a node")), all.map((node) => h("option", { key: node.id, value: node.id }, node.id)))),
    plan ? outcome() : h("p", { class: "hint" }, t("what if hint")));
}

async function ask(query, command) {
  asked = command;
  plan = await get(`/v1/plan${query}`).catch((error) => ({ error: error.message }));
  redraw();
}

function outcome() {
  if (plan.error) return h("p", { class: "trouble" }, plan.error);
  const waiting = Object.entries(plan.pending);
  return [
    h("p", null, h("code", null, asked), " ", plan.moves.length || waiting.length ? t("plan says", { moves: whole(plan.moves.length), pending: whole(waiting.length) }) : t("plan nothing")),
    plan.moves.length > 0 && table({
      name: "moves", rows: plan.moves, key: (move) => `${move.task} ${move.source} ${move.target}`,
      columns: [
        [t("task"), (move) => move.task, "name"],
        [t("from"), (move) => move.source || "–"],
        [t("to"), (move) => move.target || "–"],
        [t("reason"), (move) => move.why, "text wide"],
      ],
    }),
    waiting.length > 0 && [h("h3", null, t("would wait")), facts(...waiting.slice(0, 50))],
  ];
}
