// Streams: how far each partition is behind, the chain of offsets, what its groups do, and the verbs.

import { get, part, post } from "../api.js";
import { act, askFirst } from "../dialog.js";
import { h } from "../dom.js";
import { choose } from "../filters.js";
import { ago, short, span, when, whole, word } from "../format.js";
import { source } from "../live.js";
import { badge, empty, facts, figure, link, panel, place, verb } from "../parts.js";
import { table } from "../table.js";
import { t } from "../words.js";

const PUBLISHES = 1000; // that a page may have
const streams = () => source(`/v1/streams?limit=1000&all=${wanted.past === "yes"}`, ["streams"]);
const status = (name) => source(`/v1/streams/${part(name)}/status`, ["streams"]);
const published = (name) => source(`/v1/streams/${part(name)}/published`, ["streams"], { read: newest, often: 2_000 });

// The pages go from the oldest on; the last one is wanted.
async function newest(path, before) {
  let token = before?.token ?? null;
  for (;;) {
    const page = await get(`${path}?limit=${PUBLISHES}${token ? `&token=${part(token)}` : ""}`);
    if (page.next === null) return { token, published: page.published };
    token = page.next;
  }
}

const wanted = { past: "" }; // "yes": also backfills that are completed

export default {
  filters: wanted,
  title: ([name]) => name,
  command: ([name]) => (name ? `rota streams status ${word(name)}` : wanted.past ? "rota streams ls --all" : "rota streams ls"),
  sources: ([name]) => (name ? [status(name), published(name)] : [streams()]),
  view: ([name]) => (name ? one(name) : panel(t("screen.streams"), streams(), all)),
};

const behind = (stream, partition) => Math.max(0, (stream.latest[partition] ?? stream.committed[partition]) - stream.committed[partition]);
const partitions = (stream) => Object.keys(stream.committed).sort((a, b) => a - b);

function all() {
  const { streams: rows, left_out: past } = streams().value;
  return [
    (past > 0 || wanted.past) && h("div", { class: "filters" },
      h("span", { class: "dim" }, wanted.past ? "" : t("n completed", { count: whole(past) })), h("span", { class: "space" }),
      h("button", { class: "button", type: "button", onclick: () => choose(wanted, "past", wanted.past ? "" : "yes") }, wanted.past ? t("hide completed") : t("show completed"))),
    rows.length ? list(rows) : empty(t("no streams"), "rota up app.py"),
  ];
}

function list(rows) {
  return table({
    name: "streams", rows, key: (stream) => stream.name, href: (stream) => place.stream(stream.name),
    columns: [
      [t("stream"), (stream) => link(place.stream(stream.name), stream.name), "name"],
      [t("state"), (stream) => badge(stream.state, undefined, stream.detail)],
      [t("lag"), (stream) => whole(stream.lag), "num"],
      [t("partitions"), (stream) => heat(stream), "heat wide"],
      [t("groups"), (stream) => Object.entries(stream.phases).map(([phase, count]) => [badge(phase), ` ${count} `]), "wide"],
      [t("tasks"), (stream) => `${stream.tasks} × ${stream.replicas}`, "num wide"],
      [t("source"), (stream) => h("span", { class: "mono" }, stream.source), "wider"],
      [t("output"), (stream) => h("span", { class: "mono" }, stream.sink), "wider"],
    ],
  });
}

// A square for each partition: the darker, the farther behind.
function heat(stream, most = 64) {
  const all = partitions(stream);
  return h("span", { class: "runs" }, all.slice(0, most).map((each) => {
    const lag = behind(stream, each);
    return h("i", { key: each, class: `run heat${warmth(lag)}`, title: t("partition lag", { partition: each, lag: whole(lag) }) });
  }), all.length > most && h("span", { class: "dim" }, ` +${all.length - most}`));
}

const warmth = (lag) => (lag === 0 ? 0 : Math.min(4, 1 + Math.floor(Math.log10(lag) / 1.5)));

function one(name) {
  const seen = status(name);
  const { stream, groups, skips, moves } = seen.value || {};
  const out = published(name);
  return [
    panel(t("stream"), seen, () => [
      h("p", { class: "verbs" }, badge(stream.state), h("span", { class: "text" }, stream.detail), h("span", { class: "space" }), verbs(stream, groups)),
      h("div", { class: "figures" },
        figure(t("lag"), whole(stream.lag), { hint: t("lag.title") }),
        figure(t("partitions"), whole(partitions(stream).length)),
        figure(t("groups"), whole(groups.length), { more: t("n wanted", { count: stream.tasks }) }),
        figure(t("replicas"), whole(stream.replicas)),
        figure(t("rows made"), short(groups.reduce((sum, group) => sum + Math.max(0, ...group.tasks.map((task) => task.rows)), 0)))),
      facts([t("source"), stream.source], [t("output"), stream.sink], [t("app"), stream.app], [t("since"), stream.since && ago(stream.since)],
        stream.at && [t("changed by"), `${stream.by || "–"} · ${ago(stream.at)}`]),
    ]),
    seen.value && panel(t("chain"), seen, () => chain(stream, groups)),
    seen.value && panel(t("groups"), seen, () => groupList(groups)),
    panel(t("publishes"), out, () => rollOvers(out.value.published)),
    seen.value && (stream.errors.length > 0 || skips.length > 0 || moves.length > 0) && panel(t("trouble"), seen, () => troubles(stream, skips, moves)),
  ];
}

// Each partition from what is in the output to where the source ends, and the groups that have taken it on.
function chain(stream, groups) {
  const all = partitions(stream);
  if (!all.length) return empty(t("no partitions yet"));
  const most = Math.max(1, ...all.map((each) => behind(stream, each)));
  return table({
    name: "chain", rows: all, key: (each) => each,
    columns: [
      [t("partition"), (each) => each, "name"],
      [t("committed"), (each) => whole(stream.committed[each]), "num"],
      [t("taken on"), (each) => taken(each, groups), "text wide"],
      [t("source end"), (each) => (stream.latest[each] == null ? "–" : whole(stream.latest[each])), "num"],
      [t("lag"), (each) => [h("span", { class: `bar` }, h("i", { class: `heat${warmth(behind(stream, each))}`, style: { width: `${((behind(stream, each) / most) * 100).toFixed(1)}%` } })), h("span", { class: "num" }, short(behind(stream, each)))], "load behind"],
    ],
  });
}

const taken = (partition, groups) => groups.filter((group) => group.partitions.includes(Number(partition)))
  .map((group) => `${group.number}.${group.generation} ${t(`state.${group.phase}`)} ${whole(group.starts[partition])} → ${group.ends[partition] == null ? "…" : whole(group.ends[partition])}`).join("   ");

function groupList(groups) {
  if (!groups.length) return empty(t("no groups"));
  return groups.map((group) => h("div", { key: group.id, class: "group" },
    h("h3", null, t("group n", { number: group.number, generation: group.generation }), " ", badge(group.phase), " ", h("span", { class: "dim" }, `${ago(group.since)} ${group.why}`)),
    table({
      name: `group-${group.id}`, rows: group.tasks, key: (task) => `${task.slot} ${task.epoch}`,
      columns: [
        [t("task"), (task) => `#${task.slot}`, "name"],
        [t("node"), (task) => link(place.node(task.node), task.node)],
        [t("state"), (task) => badge(task.state)],
        [t("lag"), (task) => whole(task.lag), "num"],
        [t("rows made"), (task) => whole(task.rows), "num wide"],
        [t("age"), (task) => span(Math.max(0, Math.floor((Date.now() - new Date(task.at)) / 1000))), "num wide"],
        [t("error"), (task) => task.error || task.trouble, "text wide"],
      ],
    })));
}

// What was published, the newest first.
function rollOvers(all) {
  if (!all.length) return empty(t("nothing published"));
  return table({
    name: "publishes", rows: [...all].reverse(), key: (each) => each.id,
    columns: [
      [t("time"), (each) => h("time", { datetime: each.at }, when(each.at)), "num"],
      [t("rows made"), (each) => whole(each.rows), "num"],
      [t("offsets"), (each) => each.ranges.map((range) => `${range.partition}: ${whole(range.start)}–${whole(range.end)}`).join("  "), "text"],
      [t("files"), (each) => whole(each.segments.length), "num wide"],
      [t("by task"), (each) => h("span", { class: "mono" }, each.by), "wider"],
    ],
  });
}

function troubles(stream, skips, moves) {
  return facts(
    ...[...stream.errors].reverse().map((each) => [when(each.at), each.why]),
    ...skips.map((each) => [when(each.at), t("skipped", { partition: each.partition, first: whole(each.first), last: whole(each.last), why: each.why })]),
    ...moves.map((each) => [when(each.at), t("offsets moved", { by: each.by || stream.name, why: each.why })]));
}

function verbs(stream, groups) {
  const isStopped = stream.suspended || stream.terminated;
  return [
    isStopped
      ? verb(t("resume"), () => simple(stream, "resume"), { kind: "primary" })
      : verb(t("suspend"), () => simple(stream, "suspend")),
    verb(t("handoff"), () => simple(stream, "handoff"), { disabled: !groups.some((group) => group.phase === "reading") }),
    verb(t("scale"), () => scale(stream)),
    verb(t("reset"), () => reset(stream), { kind: "danger" }),
    verb(t("set offsets"), () => setOffsets(stream), { kind: "danger" }),
    !stream.terminated && verb(t("terminate"), () => simple(stream, "terminate", "danger"), { kind: "danger" }),
  ];
}

const SAYS = {
  suspend: ["suspend q", "suspend will", "suspend done"],
  resume: ["resume q", "resume will", "resume done"],
  handoff: ["handoff q", "handoff will", "handoff done"],
  terminate: ["terminate q", "terminate will", "terminate done"],
};

async function simple(stream, which, kind = "primary") {
  const [title, will, done] = SAYS[which];
  const given = await askFirst({ title: t(title, { name: stream.name }), will: t(will), verb: t(which), kind, command: `rota streams ${which} ${word(stream.name)}` });
  if (given) await act(() => post(`/v1/streams/${part(stream.name)}/${which}`), t(done, { name: stream.name }), "streams");
}

async function scale(stream) {
  const given = await askFirst({
    title: t("scale q", { name: stream.name }), will: t("scale will"), verb: t("scale"),
    fields: [["tasks", t("groups"), { type: "number", min: "1", value: String(stream.tasks) }]], command: `rota streams scale ${word(stream.name)} TASKS`,
  });
  if (!given) return;
  await act(() => post(`/v1/streams/${part(stream.name)}/scale`, { tasks: given.tasks === "" ? null : Number(given.tasks) }), t("scale done", { name: stream.name }), "streams");
}

async function reset(stream) {
  const given = await askFirst({
    title: t("reset q", { name: stream.name }), will: t("reset will"), verb: t("reset"), kind: "danger",
    fields: [["to", t("to"), { options: ["earliest", "latest"] }]], command: `rota streams reset ${word(stream.name)} --to PLACE`,
  });
  if (given) await act(() => post(`/v1/streams/${part(stream.name)}/reset`, { to: given.to }), t("reset done", { name: stream.name }), "streams");
}

// Some partitions go on elsewhere; written as the command takes them, `0=120 3=earliest`.
async function setOffsets(stream) {
  const given = await askFirst({
    title: t("set offsets q", { name: stream.name }), will: t("set offsets will"), verb: t("set offsets"), kind: "danger",
    fields: [["offsets", t("offsets"), { required: true, placeholder: "0=120 3=earliest" }]],
    command: `rota streams reset-offsets ${word(stream.name)} PARTITION=OFFSET`,
  });
  if (given) await act(async () => post(`/v1/streams/${part(stream.name)}/reset-offsets`, { offsets: places(given.offsets) }), t("reset done", { name: stream.name }), "streams");
}

function places(text) {
  return Object.fromEntries(text.trim().split(/[\s,]+/).map((each) => {
    const found = /^(\d+)=(.+)$/.exec(each);
    if (!found) throw new Error(t("offsets are", { text: each }));
    const [, partition, where] = found;
    return [partition, /^\d+$/.test(where) ? Number(where) : where];
  }));
}
