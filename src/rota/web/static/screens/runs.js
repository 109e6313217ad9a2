// Runs: all of them, or one with its attempts, its timeline and its output as it comes.

import { part, post, remove } from "../api.js";
import { act, askFirst } from "../dialog.js";
import { h } from "../dom.js";
import { choose } from "../filters.js";
import { ago, bytes, clock, span, until, when, word } from "../format.js";
import { Paged } from "../paged.js";
import { source } from "../live.js";
import { LogView } from "../log.js";
import { badge, empty, facts, figure, link, panel, place, tone, verb } from "../parts.js";
import { table } from "../table.js";
import { t } from "../words.js";

const STATES = ["pending", "running", "succeeded", "failed", "timed out", "interrupted", "lost", "missed"];
const path = (id) => `/v1/runs/${id.split("/").map(part).join("/")}`;
const one = (id) => source(path(id), ["runs"]);

const wanted = { state: "" };
let listed = { state: null, runs: null };
let output = null;

const redraw = () => dispatchEvent(new Event("rota:redraw"));

export default {
  filters: wanted,
  title: ([job, moment]) => (moment ? `${job}/${moment}` : t("all runs")),
  command: ([job, moment]) => (moment ? `rota runs get ${word(`${job}/${moment}`)}` : `rota runs ls${wanted.state ? ` --state ${wanted.state.replace(" ", "-")}` : ""}`),
  enter: ([job, moment]) => moment && show(`${job}/${moment}`),
  leave: () => {
    output?.close();
    output = null;
  },
  sources: ([job, moment]) => {
    if (moment && output?.run !== `${job}/${moment}`) show(`${job}/${moment}`);
    return moment ? [one(`${job}/${moment}`)] : [list().source];
  },
  view: ([job, moment]) => (moment ? detail(`${job}/${moment}`) : panel(t("runs"), list().source, all)),
};

function show(run, attempt = null) {
  output?.close();
  output = new LogView(run, attempt, `${path(run)}/log/follow`);
}

export function runColumns(withJob) {
  return [
    withJob && [t("job"), (run) => link(place.job(run.job), run.job), "name"],
    [t("due"), (run) => link(place.run(run.id), when(run.due)), "num"],
    [t("state"), (run) => badge(run.state, undefined, run.why)],
    [t("took"), (run) => (run.seconds == null ? (run.started ? span(Math.max(0, Math.floor((Date.now() - new Date(run.started)) / 1000))) : "–") : span(run.seconds)), "num"],
    [t("node"), (run) => (run.node ? link(place.node(run.node), run.node) : "–"), "wide"],
    [t("attempt"), (run) => run.attempt, "num wide"],
    [t("cause"), (run) => t(`cause.${run.cause}`), "wide"],
    [t("error"), (run) => h("span", { title: run.error }, run.error || run.why || ""), "text wide"],
  ].filter(Boolean);
}

// All runs, or those in the state that is wanted.
function list() {
  const { state } = wanted;
  if (listed.state !== state) listed = { state, runs: new Paged(state ? `/v1/runs?state=${part(state.replace(" ", "-"))}` : "/v1/runs", ["runs"], "runs", 200) };
  return listed.runs;
}

function all() {
  const runs = list();
  return [
    h("div", { class: "filters" },
      h("select", { "aria-label": t("state"), value: wanted.state, onchange: (event) => choose(wanted, "state", event.target.value) },
        h("option", { value: "" }, t("every state")), STATES.map((each) => h("option", { key: each, value: each }, t(`state.${each}`))))),
    !runs.rows.length && runs.isWhole ? empty(t("no runs yet"), "rota jobs run JOB") : table({
      name: "runs", rows: runs.rows, key: (run) => run.id, href: (run) => place.run(run.id), columns: runColumns(true), more: () => runs.more(redraw),
    }),
  ];
}

function detail(id) {
  const seen = one(id);
  const run = seen.value;
  return [
    panel(t("run"), seen, () => [
      h("p", { class: "verbs" }, badge(run.state), h("span", { class: "text" }, run.stop ? t("to be stopped", { why: run.stop }) : run.why), h("span", { class: "space" }), verbs(run)),
      run.error && h("pre", { class: "error-text" }, run.error),
      h("div", { class: "figures" },
        figure(t("took"), run.seconds == null ? (run.started ? span(Math.max(0, Math.floor((Date.now() - new Date(run.started)) / 1000))) : "–") : span(run.seconds)),
        figure(t("attempt"), run.attempt),
        figure(t("node"), run.node || "–", { href: run.node ? place.node(run.node) : null }),
        figure(t("exit code"), run.exit_code ?? "–", { tone: run.exit_code ? "bad" : "" }),
        figure(t("cpu time"), run.cpu_seconds == null ? "–" : span(run.cpu_seconds)),
        figure(t("peak memory"), bytes(run.peak_memory))),
      facts([t("job"), link(place.job(run.job), run.job)], [t("due"), `${when(run.due)} · ${ago(run.due)}`], [t("cause"), `${t(`cause.${run.cause}`)}${run.by ? ` · ${run.by}` : ""}`],
        run.of && [t("repeats"), link(place.run(run.of), run.of)],
        run.not_before && [t("waits until"), `${clock(run.not_before)} · ${until(run.not_before)}`],
        run.skipped && [t("stands for"), t("n due times", { count: run.skipped.count })],
        run.payload != null && [t("payload"), h("pre", { class: "json" }, JSON.stringify(run.payload, null, 2))]),
    ]),
    run && panel(t("attempts"), seen, () => timeline(run)),
    run && logPanel(run),
  ];
}

// Every attempt on one axis of time.
function timeline(run) {
  const now = Date.now();
  const tries = [
    ...run.earlier.map((each) => ({ attempt: each.attempt, node: each.node, state: each.outcome.state, from: each.outcome.started, to: each.ended, error: each.outcome.error })),
    { attempt: run.attempt, node: run.node, state: run.state, from: run.started, to: run.ended, error: run.ended ? run.error : "" },
    ...run.late.map((each) => ({ attempt: each.attempt, node: each.node, state: each.outcome.state, from: each.outcome.started, to: each.ended, error: t("came late") })),
  ];
  const first = new Date(run.created).getTime();
  const last = Math.max(first + 1, ...tries.map((each) => (each.to ? new Date(each.to).getTime() : now)));
  const at = (moment) => ((new Date(moment).getTime() - first) / (last - first)) * 100;
  return h("ol", { class: "timeline" }, tries.map((each, number) => h("li", { key: number },
    h("span", { class: "num" }, `#${each.attempt}`), badge(each.state), h("span", { class: "dim who" }, each.node || "–"),
    h("span", { class: "axis", title: each.from ? `${clock(each.from)} – ${each.to ? clock(each.to) : t("now")}` : "" },
      each.from && h("i", { class: tone(each.state), style: { left: `${Math.max(0, at(each.from)).toFixed(2)}%`, width: `${Math.max(0.6, at(each.to || now) - at(each.from)).toFixed(2)}%` } })),
    h("span", { class: "dim text" }, each.error))));
}

function logPanel(run) {
  const attempts = [...new Set([...run.earlier.map((each) => each.attempt), run.attempt])];
  return h("section", { class: "panel log", "aria-label": t("output") },
    h("header", null, h("h2", null, t("output")),
      attempts.length > 1 && h("select", { "aria-label": t("attempt"), value: String(output.attempt ?? attempts.at(-1)), onchange: (event) => { show(run.id, Number(event.target.value)); redraw(); } },
        attempts.map((each) => h("option", { key: each, value: String(each) }, `${t("attempt")} ${each}`))),
      h("span", { class: "space" }), h("span", { class: "age" }, output.says(run))),
    output.view());
}

function verbs(run) {
  return run.ended
    ? [verb(t("restart"), () => restart(run), { kind: "primary" }), verb(t("delete"), () => destroy(run), { kind: "danger" })]
    : [verb(t("interrupt"), () => interrupt(run), { kind: "danger", disabled: run.stop !== "" })];
}

async function restart(run) {
  const given = await askFirst({ title: t("restart q", { id: run.id }), will: t("restart will"), verb: t("restart"), command: `rota runs restart ${word(run.id)}` });
  if (!given) return;
  const made = await act(() => post(`${path(run.id)}/restart`), (one) => t("run made", { id: one.id }), "runs");
  if (made) location.hash = place.run(made.id);
}

async function interrupt(run) {
  const given = await askFirst({
    title: t("interrupt q", { id: run.id }), will: t("interrupt will"), verb: t("interrupt"), kind: "danger",
    fields: [["why", t("reason"), { placeholder: t("optional") }]], command: `rota runs interrupt ${word(run.id)}`,
  });
  if (given) await act(() => post(`${path(run.id)}/interrupt`, { why: given.why }), t("interrupt done", { id: run.id }), "runs");
}

async function destroy(run) {
  const given = await askFirst({ title: t("delete q", { name: run.id }), will: t("delete run will"), verb: t("delete"), kind: "danger", command: `rota runs rm ${word(run.id)}` });
  if (!given) return;
  const gone = await act(() => remove(path(run.id)).then(() => true), t("deleted", { name: run.id }), "runs");
  if (gone) location.hash = place.job(run.job);
}
