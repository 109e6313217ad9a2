// Services: their groups, how busy they are, how long requests take; new code and back.

import { ask, get, part, post } from "../api.js";
import { act, askFirst } from "../dialog.js";
import { h } from "../dom.js";
import { short, span, whole, word } from "../format.js";
import { source } from "../live.js";
import { badge, bar, columns, empty, facts, figure, link, panel, place, verb } from "../parts.js";
import { table } from "../table.js";
import { t } from "../words.js";

const services = source("/v1/services", [], { read: withRates, every: 2_000 });
const LONG = 300_000; // milliseconds that a reload may take

export default {
  title: ([node, name]) => (name ? `${name} @ ${node}` : undefined),
  command: ([node, name]) => (name ? `rota services stat ${word(name)} --id ${word(node)}` : "rota services ls"),
  sources: () => [services],
  view: ([node, name]) => panel(t("screen.services"), services, () => (name ? one(node, name) : all())),
};

// The services of all nodes in one list, with what came per second since the answer before.
async function withRates(path, before) {
  const answer = await get(path);
  const at = Date.now();
  const old = new Map((before?.rows || []).map((row) => [row.key, row]));
  const rows = answer.nodes.flatMap((node) => node.services.map((each) => {
    const row = { key: `${node.node} ${each.service}`, node: node.node, at, ...each };
    const was = old.get(row.key);
    const came = was?.stat && each.stat ? each.stat.client_req - was.stat.client_req : -1;
    return { ...row, rate: came >= 0 && at > was.at ? (came * 1000) / (at - was.at) : null };
  }));
  return { rows, silent: answer.nodes.filter((node) => node.error) };
}

const sum = (counts) => Object.values(counts || {}).reduce((all, count) => all + count, 0);
const worst = (stat) => Math.max(0, ...Object.values(stat.groups).map((group) => group.p99_ms));

function all() {
  const { rows, silent } = services.value;
  return [
    silent.map((node) => h("p", { key: node.node, class: "trouble" }, `${node.node}: ${node.error}`)),
    !rows.length && !silent.length ? empty(t("no services"), "rota services ls") : table({
      name: "services", rows, key: (row) => row.key, href: (row) => place.service(row.node, row.service),
      columns: [
        [t("service"), (row) => link(place.service(row.node, row.service), row.service), "name"],
        [t("node"), (row) => link(place.node(row.node), row.node)],
        [t("state"), (row) => standing(row)],
        [t("busy"), (row) => row.stat && `${sum(row.stat.busy_workers)}/${sum(row.stat.workers)}`, "num"],
        [t("waiting"), (row) => row.stat && whole(sum(row.stat.pending_tasks)), "num"],
        [t("requests"), (row) => (row.rate == null ? "–" : `${short(row.rate)}/s`), "num wide"],
        ["p99", (row) => row.stat && `${short(worst(row.stat))} ms`, "num wide"],
        [t("clients"), (row) => row.stat && whole(row.stat.clients), "num wide"],
        [t("generation"), (row) => row.stat && row.stat.generation, "num wider"],
        [t("listens at"), (row) => h("span", { class: "mono" }, row.stat?.listening.join(" ") || "–"), "wider"],
      ],
    }),
  ];
}

function standing(row) {
  if (row.error) return badge("no answer", "bad", row.error);
  if (row.stat.not_listening) return badge("down", "bad", row.stat.not_listening);
  return badge("up", "good");
}

function one(node, name) {
  const row = services.value.rows.find((each) => each.node === node && each.service === name);
  if (!row) return empty(t("no such service", { name, node }), "rota services ls");
  const { stat } = row;
  return [
    h("p", { class: "verbs" }, standing(row), h("span", { class: "text" }, row.error || stat?.not_listening || ""), h("span", { class: "space" }),
      verb(t("reload"), () => reload(node)), verb(t("rollback"), () => rollback(node), { kind: "danger" }),
      verb(t("clear"), () => clear(row), { kind: "danger", disabled: !stat })),
    stat && [
      h("div", { class: "figures" },
        figure(t("requests"), row.rate == null ? "–" : `${short(row.rate)}/s`, { more: t("n in all", { count: short(stat.client_req) }) }),
        figure(t("busy"), `${sum(stat.busy_workers)}/${sum(stat.workers)}`),
        figure(t("waiting"), whole(sum(stat.pending_tasks)), { tone: sum(stat.pending_tasks) > sum(stat.workers) ? "warn" : "" }),
        figure(t("clients"), whole(stat.clients)),
        figure(t("not answered"), whole(sum(stat.failures)), { tone: sum(stat.failures) ? "warn" : "" }),
        figure(t("generation"), stat.generation, { more: t("up for", { span: span(Math.round(stat.uptime_s)) }) })),
      h("h3", null, t("groups")),
      groups(row),
      h("h3", null, t("how long")),
      histogram(stat),
      facts([t("listens at"), stat.listening.join(", ")], ...Object.entries(stat.failures).map(([why, count]) => [why, whole(count)]), ...Object.entries(stat.drops).map(([why, count]) => [t("dropped", { why }), whole(count)])),
    ],
  ];
}

function groups(row) {
  const { stat } = row;
  return table({
    name: "groups", rows: Object.keys(stat.workers), key: (group) => group,
    columns: [
      [t("group"), (group) => group, "name"],
      [t("busy"), (group) => [bar([[stat.workers[group] ? (stat.busy_workers[group] || 0) / stat.workers[group] : 0, "used"]], t("busy")), h("span", { class: "num" }, `${stat.busy_workers[group] || 0}/${stat.workers[group]}`)], "load"],
      [t("idle"), (group) => whole(stat.idle_workers[group] || 0), "num wide"],
      [t("waiting"), (group) => whole(stat.pending_tasks[group] || 0), "num"],
      ["p50", (group) => milliseconds(stat.groups[group]?.p50_ms), "num wide"],
      ["p90", (group) => milliseconds(stat.groups[group]?.p90_ms), "num wide"],
      ["p99", (group) => milliseconds(stat.groups[group]?.p99_ms), "num"],
      [t("answered"), (group) => short(stat.worker_rsp[group] || 0), "num wide"],
      ["", (group) => verb(t("resize"), () => resize(row, group))],
    ],
  });
}

const milliseconds = (value) => (value == null ? "–" : `${short(value)} ms`);

// How many requests took less than so many milliseconds, from column to column.
function histogram(stat) {
  const bounds = Object.keys(stat.tasks_time).filter((each) => each !== "more").sort((a, b) => a - b);
  if (!sum(stat.tasks_time)) return h("p", { class: "hint" }, t("no requests yet"));
  const items = [...bounds.map((bound) => [`<${bound}`, stat.tasks_time[bound]]), ["more", stat.tasks_time.more || 0]];
  return columns(items.map(([name, count]) => [name, count, `${name} ms: ${whole(count)}`]), t("how long"));
}

async function reload(node) {
  const given = await askFirst({ title: t("reload q", { node }), will: t("reload will"), verb: t("reload"), command: `rota reload --id ${word(node)}` });
  if (given) await act(() => ask("POST", `/v1/nodes/${part(node)}/reload`, {}, LONG), (done) => t("reload done", { node, ...done }));
  services.nudge();
}

async function rollback(node) {
  const given = await askFirst({ title: t("rollback q", { node }), will: t("rollback will"), verb: t("rollback"), kind: "danger", command: `rota rollback --id ${word(node)}` });
  if (given) await act(() => ask("POST", `/v1/nodes/${part(node)}/rollback`, {}, LONG), (done) => t("rollback done", { node, ...done }));
  services.nudge();
}

async function clear({ node, service, stat }) {
  const given = await askFirst({
    title: t("clear q", { name: service }), will: t("clear will", { count: sum(stat.pending_tasks) }), verb: t("clear"), kind: "danger",
    command: `rota services clear ${word(service)} --all --id ${word(node)}`,
  });
  if (given) await act(() => post(`/v1/nodes/${part(node)}/services/${part(service)}/clear`), (done) => t("clear done", { count: sum(done.dropped) }));
  services.nudge();
}

async function resize({ node, service, stat }, group) {
  const given = await askFirst({
    title: t("resize q", { group, name: service }), will: t("resize will"), verb: t("resize"),
    fields: [["count", t("workers"), { type: "number", min: "1", required: true, value: String(stat.workers[group]) }]],
    command: `rota services resize ${word(service)} ${group} COUNT --id ${word(node)}`,
  });
  if (!given) return;
  const body = { group: Number(group), count: Number(given.count) };
  await act(() => post(`/v1/nodes/${part(node)}/services/${part(service)}/resize`, body), (done) => t("resize done", done));
  services.nudge();
}
