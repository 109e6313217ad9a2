// Jobs: a row of squares for the runs of each, when it is due next, and a way to run it now.

import { get, part, post, remove } from "../api.js";
import { act, askFirst, toast } from "../dialog.js";
import { h } from "../dom.js";
import { choose } from "../filters.js";
import { jobs } from "../fleet.js";
import { ago, span, until, when, whole, word } from "../format.js";
import { source } from "../live.js";
import { Paged } from "../paged.js";
import { badge, empty, facts, figure, link, panel, place, tone, verb } from "../parts.js";
import { table } from "../table.js";
import { t } from "../words.js";
import { runColumns } from "./runs.js";

const SQUARES = 24;
const lately = source("/v1/runs?limit=500", ["runs"], { often: 500 });
const preview = (name) => source(`/v1/jobs/${part(name)}/preview?count=8`, ["jobs"], { read: (path) => get(path).catch(() => ({ due: [] })) });

let history = { name: null, runs: null };
const wanted = { text: "" };

const redraw = () => dispatchEvent(new Event("rota:redraw"));

export default {
  filters: wanted,
  title: ([name]) => name,
  command: ([name]) => (name ? `rota jobs get ${word(name)}` : "rota jobs ls"),
  enter: ([name]) => {
    if (name && history.name !== name) history = { name, runs: new Paged(`/v1/runs?job=${part(name)}`, ["runs"], "runs", 200) };
  },
  sources: ([name]) => (name ? [jobs, preview(name), history.runs.source] : [jobs, lately]),
  view: ([name]) => (name ? one(name) : panel(t("screen.jobs"), jobs, all)),
};

const switched = (job) => (job.enabled ? badge("enabled", "good") : badge("disabled", "idle"));

function all() {
  const text = wanted.text.toLowerCase();
  const rows = jobs.value.jobs.filter((job) => !text || job.name.toLowerCase().includes(text));
  if (!jobs.value.jobs.length) return empty(t("no jobs"), "rota jobs add JOB --every 1h -- PROGRAM");
  const recent = Map.groupBy(lately.value?.runs || [], (run) => run.job);
  return [
    h("div", { class: "filters" },
      h("input", { type: "search", placeholder: t("filter"), "aria-label": t("filter"), value: wanted.text, oninput: (event) => choose(wanted, "text", event.target.value) }),
      h("span", { class: "dim num" }, t("n of m", { count: whole(rows.length), all: whole(jobs.value.jobs.length) })),
      h("span", { class: "space" }), link("#/runs", t("all runs"))),
    !rows.length ? empty(t("nothing matches")) : table({
      name: "jobs", rows, key: (job) => job.name, href: (job) => place.job(job.name),
      columns: [
        [t("job"), (job) => link(place.job(job.name), job.name), "name"],
        [t("recent runs"), (job) => squares(recent.get(job.name) || (job.last ? [job.last] : [])), "grid wide"],
        [t("last run"), (job) => (job.last ? [badge(job.last.state), " ", h("span", { class: "dim wide" }, ago(job.last.ended))] : h("span", { class: "dim" }, t("never"))), ""],
        [t("next due"), (job) => (job.next ? h("span", { title: when(job.next) }, until(job.next)) : job.enabled ? "–" : badge("disabled", "idle")), "num"],
        [t("live runs"), (job) => (job.live ? badge(String(job.live), "busy") : "–"), "num wide"],
        [t("schedule"), (job) => h("span", { class: "mono" }, job.schedule), "wider"],
        ["", (job) => verb(t("run now"), () => runNow(job)), "act"],
      ],
    }),
  ];
}

// The runs of a job, the newest at the right.
function squares(runs) {
  return h("span", { class: "runs" }, runs.slice(0, SQUARES).reverse().map((run) =>
    h("a", { key: run.id, class: `run ${tone(run.state)}`, href: place.run(run.id), title: `${when(run.due)} · ${t(`state.${run.state}`)}${run.seconds == null ? "" : ` · ${span(run.seconds)}`}`, "aria-label": `${run.id} ${run.state}` })));
}

function one(name) {
  const job = jobs.value?.jobs.find((each) => each.name === name);
  const { runs } = history;
  const due = preview(name);
  return [
    panel(t("job"), jobs, () => (job ? about(job) : h("p", { class: "hint" }, t("job gone", { name })))),
    job && panel(t("next due"), due, () => (due.value.due.length
      ? h("ol", { class: "dues" }, due.value.due.map((each) => h("li", { key: each.due }, h("span", { class: "num" }, when(each.due)), " ", h("span", { class: "dim" }, until(each.due)), each.odd && h("span", { class: "warnish" }, each.odd))))
      : empty(job.schedule === "by hand" ? t("by hand") : t("not by the clock", { schedule: job.schedule })))),
    panel(t("runs"), runs.source, () => (runs.rows.length
      ? table({ name: "history", rows: runs.rows, key: (run) => run.id, href: (run) => place.run(run.id), columns: runColumns(false), more: () => runs.more(redraw) })
      : empty(t("no runs yet"), `rota jobs run ${word(name)}`))),
  ];
}

function about(job) {
  return [
    h("p", { class: "verbs" }, switched(job), job.last && badge(job.last.state), h("span", { class: "space" }),
      verb(t("run now"), () => runNow(job), { kind: "primary" }),
      job.enabled ? verb(t("disable"), () => disable(job)) : verb(t("enable"), () => enable(job)),
      verb(t("backfill"), () => backfill(job)),
      job.origin === "api" && verb(t("delete"), () => destroy(job), { kind: "danger", needs: "admin" })),
    h("div", { class: "figures" },
      figure(t("next due"), job.next ? until(job.next) : "–", { more: job.next ? when(job.next) : null }),
      figure(t("last run"), job.last ? ago(job.last.ended) : t("never"), { more: job.last?.seconds == null ? null : span(job.last.seconds) }),
      figure(t("live runs"), whole(job.live))),
    facts([t("schedule"), job.schedule], [t("origin"), `${job.origin}${job.app ? ` · ${job.app}` : ""}`], [t("changed by"), `${job.by || "–"} · ${ago(job.at)}`],
      ...Object.entries(job.spec).filter(([key]) => !["cron", "every", "tz"].includes(key)).map(([key, value]) => [key, value === null ? t("no limit") : typeof value === "object" ? JSON.stringify(value) : String(value)])),
  ];
}

async function runNow(job) {
  const given = await askFirst({
    title: t("run q", { name: job.name }), will: t("run will"), verb: t("run now"),
    fields: [["payload", t("payload"), { placeholder: t("optional json") }]], command: `rota jobs run ${word(job.name)}`,
  });
  if (!given) return;
  const made = await act(async () => post(`/v1/jobs/${part(job.name)}/run`, given.payload ? { payload: JSON.parse(given.payload) } : {}), (run) => t("run made", { id: run.id }), "runs", "jobs");
  if (made) location.hash = place.run(made.id);
}

const enable = (job) => act(() => post(`/v1/jobs/${part(job.name)}/enable`), t("enabled it", { name: job.name }), "jobs");

async function disable(job) {
  const given = await askFirst({ title: t("disable q", { name: job.name }), will: t("disable will"), verb: t("disable"), command: `rota jobs disable ${word(job.name)}` });
  if (given) await act(() => post(`/v1/jobs/${part(job.name)}/disable`), t("disabled it", { name: job.name }), "jobs");
}

// First from when to when, then whether to make the runs that lack there.
async function backfill(job) {
  const title = t("backfill q", { name: job.name });
  const path = `/v1/jobs/${part(job.name)}/backfill`;
  const given = await askFirst({
    title, says: t("backfill says"), verb: t("look"),
    fields: [["first", t("from"), { type: "datetime-local", required: true }], ["last", t("to"), { type: "datetime-local", required: true }]],
    command: `rota jobs backfill ${word(job.name)} FIRST LAST --preview`,
  });
  if (!given) return;
  const [first, last] = [given.first, given.last].map((each) => new Date(each).toISOString());
  const runs = await missing(`${path}?first=${part(first)}&last=${part(last)}`);
  if (!runs) return;
  const [count, oldest, newest] = [whole(runs.length), runs[0], runs.at(-1)];
  const agreed = await askFirst({
    title, says: runs.length > 1 ? t("backfill lacks", { oldest, newest }) : oldest, will: t("backfill will", { count }), verb: t("backfill"),
    command: `rota jobs backfill ${word(job.name)} ${first} ${last}`,
  });
  if (agreed) await act(() => post(path, { first, last }), (made) => t("backfill done", { count: made.runs.length }), "runs", "jobs");
}

// The runs that a backfill would make; null, and a word why, if there are none or it cannot be.
async function missing(path) {
  try {
    const { runs } = await get(path);
    if (runs.length) return runs;
    toast(t("backfill none"));
  } catch (error) {
    toast(error.message, "bad");
  }
  return null;
}

async function destroy(job) {
  const given = await askFirst({ title: t("delete q", { name: job.name }), will: t("delete job will"), verb: t("delete"), kind: "danger", command: `rota jobs rm ${word(job.name)}` });
  if (!given) return;
  const gone = await act(() => remove(`/v1/jobs/${part(job.name)}`).then(() => true), t("deleted", { name: job.name }), "jobs");
  if (gone) location.hash = "#/jobs";
}
