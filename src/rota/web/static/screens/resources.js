// Resources: whether each has its tasks, where, and why.

import { get, part, patch, post, remove } from "../api.js";
import { act, askFirst } from "../dialog.js";
import { h } from "../dom.js";
import { choose } from "../filters.js";
import { kinds, nodesOf, whyResource } from "../fleet.js";
import { ago, short, span, whole, word } from "../format.js";
import { resources, source } from "../live.js";
import { badge, chips, empty, facts, figure, link, panel, place, verb, waiting } from "../parts.js";
import { table } from "../table.js";
import { t } from "../words.js";

const tally = (kind, id) => source(`/v1/resources/${part(kind)}/${part(id)}/messages`, [], { read: (path) => get(path).catch(noRelay), every: 2_000 });

const wanted = { text: "", kind: "", state: "" };

export default {
  filters: wanted,
  title: ([kind, id]) => (id === undefined ? undefined : `${kind}/${id}`),
  command: ([kind, id]) => (id === undefined ? "rota resources ls" : `rota why ${word(`${kind}/${id}`)}`),
  sources: ([kind, id]) => (id === undefined ? [resources, kinds] : [resources, whyResource(kind, id), tally(kind, id)]),
  view: ([kind, id]) => (id === undefined ? all() : one(kind, id)),
};

// Messages are counted only where a kind has a sink.
function noRelay(error) {
  if (error.status === 404) return { none: error.message };
  throw error;
}

export function state(resource) {
  const { status } = resource;
  if (!status) return "unseen";
  if (Object.keys(status.failing || {}).length) return "failing";
  if (status.assigned < status.replicas) return "pending";
  return status.moving ? "moving" : "covered";
}

const reason = ({ status }) => [status?.pending, ...Object.entries(status?.failing || {}).map(([node, why]) => t("fails on", { node, why })), status?.moving]
  .filter(Boolean).join("; ");
const tasks = ({ status }) => (!status ? "–" : status.not_running
  ? t("tasks running", { running: status.assigned - status.not_running, assigned: status.assigned, replicas: status.replicas })
  : `${status.assigned}/${status.replicas}`);

const STATE_TONE = { covered: "good", unseen: "idle", failing: "bad", pending: "warn", moving: "busy" };
export const stateBadge = (resource) => badge(state(resource), STATE_TONE[state(resource)]);

// Without the groups of streams, which are kept covered like resources and have a screen of their own.
const own = () => (resources.value || []).filter((each) => !each.kind.startsWith("stream:"));

function chosen() {
  const text = wanted.text.toLowerCase();
  return own().filter((each) => (!wanted.kind || each.kind === wanted.kind)
    && (!wanted.state || state(each) === wanted.state)
    && (!text || each.name.toLowerCase().includes(text) || (each.status?.AssignedNode || "").toLowerCase().includes(text)));
}

function filters(rows) {
  const known = [...new Set(own().map((each) => each.kind))];
  return h("div", { class: "filters" },
    h("input", { type: "search", placeholder: t("filter"), "aria-label": t("filter"), value: wanted.text, oninput: (event) => choose(wanted, "text", event.target.value) }),
    h("select", { "aria-label": t("kind"), value: wanted.kind, onchange: (event) => choose(wanted, "kind", event.target.value) },
      h("option", { value: "" }, t("every kind")), known.map((kind) => h("option", { key: kind, value: kind }, kind))),
    h("select", { "aria-label": t("state"), value: wanted.state, onchange: (event) => choose(wanted, "state", event.target.value) },
      h("option", { value: "" }, t("every state")), Object.keys(STATE_TONE).map((each) => h("option", { key: each, value: each }, t(`state.${each}`)))),
    h("span", { class: "num dim" }, t("n of m", { count: whole(rows.length), all: resources.isSynced ? whole(own().length) : "…" })),
    h("span", { class: "space" }),
    verb(t("add resource"), add, { kind: "primary" }));
}

function all() {
  const rows = chosen();
  const nothing = resources.value?.length ? empty(t("nothing matches")) : empty(t("no resources"), "rota resources add KIND ID");
  return panel(t("screen.resources"), resources, () => [
    filters(rows),
    !rows.length ? nothing : table({
      name: "resources", rows, key: (each) => each.name, href: (each) => place.resource(each.kind, each.id),
      columns: [
        [t("resource"), (each) => link(place.resource(each.kind, each.id), each.name), "name"],
        [t("state"), stateBadge],
        [t("tasks"), tasks, "num"],
        [t("screen.nodes"), (each) => nodesOf(each.status).map((node) => [link(place.node(node), node), " "]), "wide"],
        [t("reason"), reason, "text wide"],
        [t("priority"), (each) => whole(each.priority), "num wider"],
        [t("origin"), (each) => each.origin, "wider"],
        [t("made"), (each) => ago(each.created), "num wider"],
      ],
    }),
  ]);
}

function one(kind, id) {
  const seen = (resources.value || []).find((each) => each.kind === kind && each.id === id);
  const about = whyResource(kind, id);
  if (!seen) return panel(t("resource"), resources, () => (resources.isSynced ? empty(t("no such resource", { name: `${kind}/${id}` }), "rota resources ls") : waiting(resources)));
  return [
    panel(t("resource"), resources, () => [
      h("p", { class: "verbs" }, stateBadge(seen), h("span", { class: "text" }, reason(seen)), h("span", { class: "space" }), verbs(seen)),
      h("div", { class: "figures" },
        figure(t("tasks"), tasks(seen)),
        ...messages(tally(kind, id))),
      facts([t("screen.nodes"), nodesOf(seen.status).map((node) => [link(place.node(node), node), " "])], [t("replicas"), seen.replicas ?? t("as its kind says")],
        [t("priority"), whole(seen.priority)], [t("cost"), whole(seen.cost)], [t("pin"), seen.pin], [t("labels"), chips(seen.labels)], [t("tags"), chips(seen.tags)],
        [t("origin"), seen.origin], [t("made"), ago(seen.created)], [t("version"), seen.version],
        ["spec", h("pre", { class: "json" }, JSON.stringify(seen.spec, null, 2))]),
    ]),
    panel(t("why"), about, () => reasons(about.value)),
  ];
}

function messages(counted) {
  const { value } = counted;
  if (!value || value.none) return [figure(t("last message"), "–", { hint: value?.none })];
  return [
    figure(t("last message"), value.last_s == null ? "–" : t("ago", { span: span(value.last_s + (Date.now() - counted.at) / 1000) })),
    figure(t("unique"), short(value.unique)),
    figure(t("duplicates"), short(value.duplicates), { hint: t("duplicates.title") }),
    figure(t("seen by one"), short(value.seen_by_one), { hint: t("seen by one.title"), tone: value.seen_by_one ? "warn" : "" }),
  ];
}

export function reasons(about) {
  const lists = [["chosen", about.chosen], ["refusals", about.refusals], ["remedies", about.remedies]];
  return [
    h("p", { class: "says" }, about.says),
    about.reasons.length > 0 && h("ul", { class: "reasons" }, about.reasons.map((each) => h("li", { key: each }, each))),
    lists.filter(([, found]) => Object.keys(found).length).map(([name, found]) => [
      h("h3", null, t(name)),
      facts(...Object.entries(found).map(([node, text]) => [link(place.node(node), node), text])),
    ]),
  ];
}

function verbs(seen) {
  if (seen.origin === "stream") return null;
  return [
    verb(t("change replicas"), () => resize(seen)),
    verb(t("delete"), () => destroy(seen), { kind: "danger" }),
  ];
}

async function resize(seen) {
  const given = await askFirst({
    title: t("replicas q", { name: seen.name }), will: t("replicas will"), verb: t("set"),
    fields: [["replicas", t("replicas"), { type: "number", min: "1", value: String(seen.status?.replicas ?? seen.replicas ?? 1) }]],
    command: `rota resources update ${word(seen.kind)} ${word(seen.id)} --replicas COUNT`,
  });
  if (!given) return;
  const replicas = given.replicas === "" ? null : Number(given.replicas);
  await act(() => patch(`/v1/resources/${part(seen.kind)}/${part(seen.id)}`, { replicas }), t("changed", { name: seen.name }), "resources");
}

async function destroy(seen) {
  const given = await askFirst({
    title: t("delete q", { name: seen.name }), will: t("delete resource will", { tasks: seen.status?.assigned ?? 0 }), verb: t("delete"), kind: "danger",
    says: seen.origin === "source" ? t("delete source says") : null,
    command: `rota resources rm ${word(seen.kind)} ${word(seen.id)}`,
  });
  if (!given) return;
  const gone = await act(() => remove(`/v1/resources/${part(seen.kind)}/${part(seen.id)}`).then(() => true), t("deleted", { name: seen.name }), "resources");
  if (gone) location.hash = "#/resources";
}

async function add() {
  const known = (kinds.value?.kinds || []).map((each) => each.name);
  const given = await askFirst({
    title: t("add resource"), will: t("add resource will"), verb: t("add"),
    fields: [
      ["kind", t("kind"), { options: known }],
      ["id", t("name"), { required: true }],
      ["replicas", t("replicas"), { type: "number", min: "1", placeholder: t("as its kind says") }],
      ["spec", "spec", { placeholder: "{}" }],
    ],
    command: "rota resources add KIND ID",
  });
  if (!given) return;
  await act(async () => {
    const spec = given.spec ? JSON.parse(given.spec) : {};
    const body = { kind: given.kind, id: given.id, spec, ...(given.replicas ? { replicas: Number(given.replicas) } : {}) };
    return post("/v1/resources?wait=5s", body);
  }, (made) => (made.status?.pending ? t("made pending", { name: `${made.kind}/${made.id}`, why: made.status.pending }) : t("made it", { name: `${made.kind}/${made.id}` })), "resources");
}
