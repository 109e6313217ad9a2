// Nodes: how busy each is, what it has, and whether it gets more.

import { get, part, patch, post } from "../api.js";
import { act, askFirst } from "../dialog.js";
import { h } from "../dom.js";
import { nodes, resourceOf, whyNode } from "../fleet.js";
import { ago, clock, percent, span, whole, word } from "../format.js";
import { badge, bar, chips, empty, facts, figure, link, panel, place, verb } from "../parts.js";
import { table } from "../table.js";
import { t } from "../words.js";

const CPU = 0.64, EXECUTORS = 0.32, MEMORY = 0.04;

export default {
  title: ([id]) => id,
  command: ([id]) => (id ? `rota why ${word(id)}` : "rota nodes ls"),
  sources: ([id]) => (id ? [nodes, whyNode(id)] : [nodes]),
  view: ([id]) => (id ? one(id) : panel(t("screen.nodes"), nodes, all)),
};

// What tells one code from another: the app's version, the generation in this life of the node, and a digest of the files.
function code(node) {
  return h("span", { class: "mono", title: node.code }, [node.app_version, `g${node.generation}`, node.code.slice(0, 8)].filter(Boolean).join(" "));
}

export function state(node) {
  if (!node.is_up) return "gone";
  if (node.drain) return "draining";
  if (node.cordon) return "cordoned";
  return node.standing;
}

// The parts of the load score, as they weigh.
export function loadBar(load) {
  if (!load) return h("span", { class: "dim" }, "–");
  const executors = load.executors ? load.executors_used / load.executors : 0;
  const label = t("load.split", { score: load.score.toFixed(1), cpu: percent(load.cpu), executors: `${load.executors_used}/${load.executors}`, memory: percent(load.memory) });
  return bar([[CPU * load.cpu, "cpu"], [EXECUTORS * executors, "executors"], [MEMORY * load.memory, "memory"]], label);
}

function all() {
  if (!nodes.value.nodes.length) return empty(t("no nodes"), "rota node --store URL app.py");
  return [
    table({
      name: "nodes", rows: nodes.value.nodes, key: (node) => node.id, href: (node) => place.node(node.id),
      columns: [
        [t("node"), (node) => [link(place.node(node.id), node.id), node.leads && h("span", { class: "crown", title: t("leads") }, "★")], "name"],
        [t("state"), (node) => badge(state(node), undefined, node.standing_why)],
        [t("load"), (node) => [loadBar(node.load), h("span", { class: "num" }, node.load ? node.load.score.toFixed(0) : "")], "load"],
        [t("slots"), (node) => `${node.used}/${node.slots}`, "num"],
        [t("tasks"), (node) => whole(node.tasks), "num wide"],
        [t("executors"), (node) => (node.load ? `${node.load.executors_used}/${node.load.executors}` : "–"), "num wide"],
        [t("app"), (node) => node.app ? [node.app, " ", code(node)] : "–", "wide"],
        [t("labels"), (node) => chips(node.labels), "wider"],
        [t("up"), (node) => span(node.age_s), "num wide"],
        [t("address"), (node) => h("span", { class: "mono" }, node.http || "–"), "wider"],
      ],
    }),
    h("p", { class: "legend" }, h("i", { class: "cpu" }), t("cpu weight"), h("i", { class: "executors" }), t("executors weight"), h("i", { class: "memory" }), t("memory weight")),
  ];
}

function one(id) {
  const node = nodes.value?.nodes.find((each) => each.id === id);
  if (nodes.value && !node) return panel(id, nodes, () => empty(t("no such node", { id }), "rota nodes ls"));
  const about = whyNode(id);
  return [
    panel(t("node"), nodes, () => [
      h("p", { class: "verbs" }, badge(state(node)), node.leads && badge("leads", "good"), node.standing_why && h("span", { class: "text" }, node.standing_why), h("span", { class: "space" }), verbs(node)),
      h("div", { class: "figures" },
        figure(t("load"), node.load ? node.load.score.toFixed(1) : "–", { more: loadBar(node.load) }),
        figure(t("cpu"), percent(node.load?.cpu)),
        figure(t("memory"), percent(node.load?.memory)),
        figure(t("executors"), node.load ? `${node.load.executors_used}/${node.load.executors}` : "–"),
        figure(t("slots"), `${node.used}/${node.slots}`, { more: node.slots_set ? t("slots set", { when: ago(node.slots_set.since) }) : bar([[node.slots ? node.used / node.slots : 0, "used"]], "") }),
        figure(t("tasks"), whole(node.tasks), { more: node.drain ? t("of n at first", { count: node.drain.tasks }) : null })),
      facts([t("app"), node.app], node.generation > 0 && [t("code"), code(node)], [t("role"), node.role], [t("host"), node.host], ["HTTP", node.http], ["gRPC", node.grpc],
        [t("labels"), node.labels_set ? [chips(node.labels), ` ${t("slots set", { when: ago(node.labels_set.since) })}`] : chips(node.labels)], [t("kinds"), node.kinds.join(", ")], [t("up"), span(node.age_s)], [t("version"), node.version],
        node.cordon && [t("cordon"), `${node.cordon.why || "–"} · ${ago(node.cordon.since)}`],
        node.drain && [t("drain"), `${node.drain.why || "–"} · ${ago(node.drain.since)}${node.drain.deadline ? ` · ${t("deadline")} ${clock(node.drain.deadline)}` : ""}`]),
    ]),
    panel(t("why"), about, () => [
      h("p", { class: "says" }, about.value.says),
      about.value.reasons.length > 0 && h("ul", { class: "reasons" }, about.value.reasons.map((each) => h("li", { key: each }, each))),
      Object.keys(about.value.refusals).length > 0 && [
        h("h3", null, t("refused here")),
        facts(...Object.entries(about.value.refusals)),
      ],
    ]),
    panel(t("tasks here"), about, () => tasks(about.value.holds)),
  ];
}

function tasks(holds) {
  if (!holds.length) return empty(t("no tasks here"));
  return table({
    name: "holds", rows: holds, key: (task) => task, href: (task) => place.resource(...resourceOf(task)),
    columns: [[t("task"), (task) => link(place.resource(...resourceOf(task)), task), "name mono"]],
  });
}

function verbs(node) {
  return [
    node.drain ? verb(t("undrain"), () => undrain(node)) : verb(t("drain"), () => drain(node), { kind: "danger" }),
    node.cordon ? verb(t("uncordon"), () => uncordon(node)) : verb(t("cordon"), () => cordon(node)),
    node.is_up && verb(t("set slots"), () => setSlots(node)),
  ];
}

async function drain(node) {
  const plan = await get(`/v1/plan?without=${part(node.id)}`).catch(() => null);
  const left = plan ? Object.keys(plan.pending).length : 0;
  const given = await askFirst({
    title: t("drain q", { node: node.id }), will: t("drain will", { tasks: node.tasks, stuck: left }), verb: t("drain"), kind: "danger",
    fields: [["why", t("reason"), { placeholder: t("optional") }], ["deadline", t("deadline"), { placeholder: "10m" }]],
    command: `rota nodes drain ${word(node.id)}`,
  });
  if (!given) return;
  const body = { why: given.why, ...(given.deadline ? { deadline: given.deadline } : {}) };
  await act(() => post(`/v1/nodes/${part(node.id)}/drain`, body), t("drain done", { node: node.id }), "nodes");
}

const undrain = (node) => act(() => post(`/v1/nodes/${part(node.id)}/undrain`), t("undrain done", { node: node.id }), "nodes");
const uncordon = (node) => act(() => post(`/v1/nodes/${part(node.id)}/uncordon`), t("uncordon done", { node: node.id }), "nodes");

async function cordon(node) {
  const given = await askFirst({
    title: t("cordon q", { node: node.id }), will: t("cordon will", { tasks: node.tasks }), verb: t("cordon"),
    fields: [["why", t("reason"), { placeholder: t("optional") }]], command: `rota nodes cordon ${word(node.id)}`,
  });
  if (given) await act(() => post(`/v1/nodes/${part(node.id)}/cordon`, { why: given.why }), t("cordon done", { node: node.id }), "nodes");
}

async function setSlots(node) {
  const given = await askFirst({
    title: t("slots q", { node: node.id }), will: t("slots will", { configured: node.configured_slots }), verb: t("set"),
    fields: [["slots", t("slots"), { type: "number", min: "0", value: String(node.slots) }]], command: `rota nodes slots ${word(node.id)} COUNT`,
  });
  if (!given) return;
  const slots = given.slots === "" ? null : Number(given.slots);
  await act(() => patch(`/v1/nodes/${part(node.id)}`, { slots }), t("slots done", { node: node.id }), "nodes");
}
