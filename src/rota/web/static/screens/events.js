// What happened, the newest first.

import { get, part } from "../api.js";
import { h } from "../dom.js";
import { choose } from "../filters.js";
import { nodes } from "../fleet.js";
import { when, word } from "../format.js";
import { source } from "../live.js";
import { badge, button, empty, link, panel, place } from "../parts.js";
import { table } from "../table.js";
import { t } from "../words.js";

const PAGE = 200;
const SORTS = ["node", "leader", "worker", "reload", "source", "service", "sink", "relay", "stream", "job", "run", "hook"];
const MARKS = { warning: "◆", error: "■" };

const wanted = { kind: "", node: "", severity: "", text: "" };
let older = { key: "", rows: [], isEnd: false, isAsking: false };

const redraw = () => dispatchEvent(new Event("rota:redraw"));
const query = () => `${wanted.kind ? `&kind=${part(`${wanted.kind}.*`)}` : ""}${wanted.node ? `&node=${part(wanted.node)}` : ""}`;
const events = () => source(`/v1/events?limit=${PAGE}${query()}`, ["events"]);

export default {
  filters: wanted,
  command: () => `rota events${wanted.kind ? ` --kind ${word(`${wanted.kind}.*`)}` : ""}${wanted.node ? ` --node ${word(wanted.node)}` : ""} -f`,
  sources: () => [events(), nodes],
  view: () => panel(t("screen.events"), events(), all),
};

function rows() {
  const fresh = [...events().value.events].reverse();
  const last = fresh.at(-1)?.id ?? "";
  const all = older.key === query() ? [...fresh, ...older.rows.filter((each) => each.id < last)] : fresh;
  const text = wanted.text.toLowerCase();
  return all.filter((each) => (!wanted.severity || each.severity === wanted.severity)
    && (!text || each.text.toLowerCase().includes(text) || each.kind.includes(text)));
}

async function more() {
  if (older.key !== query()) older = { key: query(), rows: [], isEnd: false, isAsking: false };
  const mine = older;
  const last = mine.rows.at(-1) ?? events().value.events[0];
  if (mine.isEnd || mine.isAsking || !last) return;
  mine.isAsking = true;
  const page = await get(`/v1/events?limit=${PAGE}&until=${part(last.at)}${query()}`).catch(() => null);
  mine.isAsking = false;
  if (!page) return;
  const found = [...page.events].reverse().filter((each) => each.id < last.id);
  mine.rows.push(...found);
  mine.isEnd = found.length === 0;
  redraw();
}

const picker = (name, label, options) => h("select", { "aria-label": label, value: wanted[name], onchange: (event) => choose(wanted, name, event.target.value) },
  h("option", { value: "" }, label), options.map((each) => h("option", { key: each, value: each }, each)));

function all() {
  const found = rows();
  return [
    h("div", { class: "filters" },
      h("input", { type: "search", placeholder: t("filter"), "aria-label": t("filter"), value: wanted.text, oninput: (event) => choose(wanted, "text", event.target.value) }),
      picker("kind", t("every kind"), SORTS),
      picker("severity", t("every severity"), ["info", "warning", "error"]),
      picker("node", t("every node"), (nodes.value?.nodes || []).map((node) => node.id))),
    !found.length ? empty(events().value.events.length ? t("nothing matches") : t("no events"), "rota events") : table({
      name: "events", rows: found, key: (each) => each.id, more,
      columns: [
        [t("time"), (each) => h("time", { datetime: each.at, title: each.at }, when(each.at)), "num time"],
        [t("severity"), (each) => badge(each.severity, { info: "idle", warning: "warn", error: "bad" }[each.severity]), "wide"],
        [t("event"), (each) => h("span", { title: each.text }, MARKS[each.severity] && h("span", { class: `mark ${each.severity}`, "aria-hidden": "true" }, MARKS[each.severity]), each.text), "grow"],
        [t("kind"), (each) => h("span", { class: "mono" }, each.kind), "wide"],
        [t("node"), (each) => link(place.node(each.node), each.node), "wide"],
      ],
    }),
    older.key === query() && !older.isEnd && older.rows.length > 0 && h("p", null, button(t("older"), more)),
  ];
}
