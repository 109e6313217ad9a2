// What is wrong first; then how much of everything there is, and how fast it goes.

import { h } from "../dom.js";
import { concerns, jobs, nodes, overview, parted } from "../fleet.js";
import { short, when, whole } from "../format.js";
import { source } from "../live.js";
import { badge, bar, empty, figure, link, panel, place } from "../parts.js";
import { t } from "../words.js";

const events = source("/v1/events?limit=12", ["events"]);
const ABOUT = { fleet: "fleet", node: "node", resource: "resource", stream: "stream", sink: "sink", job: "job" };

let before = null; // the sample that rates are counted from

export default {
  command: () => "rota status",
  sources: () => [jobs, nodes, events],
  view: () => [
    panel(t("concerns"), overview, wrong),
    panel(t("numbers"), overview, numbers),
    h("div", { class: "beside" }, panel(t("skew"), nodes, skew), panel(t("lately"), events, lately)),
  ],
};

const HREF = {
  node: (subject) => place.node(subject),
  resource: (subject) => place.resource(...parted(subject)),
  stream: (subject) => place.stream(subject),
  job: (subject) => place.job(subject),
};

function wrong() {
  const seen = overview.value;
  const all = concerns();
  if (!all.length) return h("p", { class: "well" }, badge("all is well", "good"), " ", t("well.more"));
  return [
    h("ul", { class: "concerns" }, all.map((each) => h("li", { key: `${each.about} ${each.subject} ${each.text}`, class: each.severity },
      badge(each.severity, { error: "bad", warning: "warn", info: "busy" }[each.severity]),
      h("span", { class: "what" }, t(ABOUT[each.about] || each.about), " ", HREF[each.about] && each.subject ? link(HREF[each.about](each.subject), each.subject) : h("b", null, each.subject)),
      h("span", { class: "text" }, each.text)))),
    seen.concerns_left_out > 0 && h("p", { class: "hint" }, t("left out", { count: whole(seen.concerns_left_out) })),
  ];
}

function numbers() {
  const seen = overview.value;
  const live = Object.values(seen.runs).reduce((sum, count) => sum + count, 0);
  const streams = Object.entries(seen.streams);
  return h("div", { class: "figures" },
    figure(t("screen.nodes"), `${seen.nodes_up}/${seen.nodes}`, { href: "#/nodes", tone: seen.nodes_up < seen.nodes ? "bad" : "", more: t("slots used", { used: short(seen.used), slots: short(seen.slots) }) }),
    figure(t("screen.resources"), whole(seen.resources), { href: "#/resources", tone: seen.pending ? "warn" : "", more: seen.pending ? t("n pending", { count: whole(seen.pending) }) : t("all covered") }),
    figure(t("tasks"), whole(seen.tasks), { href: "#/placement", more: t("n running", { count: whole(seen.tasks_running) }) }),
    figure(t("screen.jobs"), whole(seen.jobs), { href: "#/jobs", more: t("n runs live", { count: whole(live) }) }),
    figure(t("screen.streams"), whole(streams.reduce((sum, [, count]) => sum + count, 0)), { href: "#/streams", more: streams.length ? t("lag n", { count: short(seen.lag) }) : t("none declared") }),
    figure(t("messages"), rate(seen), { more: seen.spooled ? t("n spooled", { count: short(seen.spooled) }) : t("n published", { count: short(seen.published) }), tone: seen.spooled ? "warn" : "", hint: t("rate.title") }));
}

// Messages per second, from one answer to a later one.
function rate(seen) {
  const at = new Date(seen.as_of);
  if (!before || seen.published < before.published || at - before.at > 20_000) before = { at, published: seen.published, rate: null };
  else if (at - before.at >= 2_000) before = { at, published: seen.published, rate: ((seen.published - before.published) * 1000) / (at - before.at) };
  return before.rate == null ? "–" : `${short(before.rate)}/s`;
}

// How evenly the nodes are used.
function skew() {
  const all = nodes.value.nodes.filter((node) => node.is_up);
  if (!all.length) return empty(t("no nodes"), "rota node --store URL app.py");
  return h("ul", { class: "skew" }, all.map((node) => h("li", { key: node.id },
    h("span", { class: "who" }, link(place.node(node.id), node.id), node.leads && h("span", { class: "crown", title: t("leads") }, "★")),
    bar([[node.slots ? node.used / node.slots : 0, "used"]], t("slots used", { used: node.used, slots: node.slots })),
    h("span", { class: "num" }, `${node.used}/${node.slots}`),
    h("span", { class: "num", title: t("load") }, node.load ? node.load.score.toFixed(0) : "–"))));
}

function lately() {
  const all = [...events.value.events].reverse();
  if (!all.length) return empty(t("no events"), "rota events");
  return h("ul", { class: "lately" }, all.map((each) => h("li", { key: each.id, class: each.severity },
    h("time", { datetime: each.at }, when(each.at)), h("span", { class: "text" }, each.text))));
}
