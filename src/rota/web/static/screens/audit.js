// The audit trail: who changed what, from where, and who was turned away. Whether it is whole is asked for by hand. And
// the tokens by which people come in; what a token is, nobody can be told again.

import { get, part, post } from "../api.js";
import { act, askFirst } from "../dialog.js";
import { h } from "../dom.js";
import { choose } from "../filters.js";
import { ago, until, when, whole, word } from "../format.js";
import { source } from "../live.js";
import { badge, button, empty, panel, verb } from "../parts.js";
import { table } from "../table.js";
import { t } from "../words.js";

const PAGE = 500;
const trail = () => source(`/v1/audit?limit=${PAGE}${wanted.outcome ? "&refused=true" : ""}`, [], { every: 2_000 });
const tokens = source("/v1/tokens", []);
const redraw = () => dispatchEvent(new Event("rota:redraw"));

const wanted = { outcome: "", text: "" };
let verdict = null; // the last answer to "is it whole?"

export default {
  filters: wanted,
  command: () => `rota audit ls${wanted.outcome ? " --refused" : ""}`,
  sources: () => [trail(), tokens],
  view: () => [panel(t("screen.audit"), trail(), all), wholeness(), panel(t("tokens"), tokens, keysToTheDoor)],
};

function rows() {
  const text = wanted.text.toLowerCase();
  return [...trail().value.entries].reverse().filter(({ entry }) => !text
    || [entry.by, entry.origin, entry.what, keysOf(entry), entry.refused].some((each) => each.toLowerCase().includes(text)));
}

const keysOf = (entry) => entry.changes.map((change) => change.key).join(" ");

function all() {
  const found = rows();
  return [
    h("div", { class: "filters" },
      h("input", { type: "search", placeholder: t("filter"), "aria-label": t("filter"), value: wanted.text, oninput: (event) => choose(wanted, "text", event.target.value) }),
      h("select", { "aria-label": t("outcome"), value: wanted.outcome, onchange: (event) => choose(wanted, "outcome", event.target.value) },
        h("option", { value: "" }, t("every outcome")), h("option", { value: "refused" }, t("state.refused"))),
      h("span", { class: "num dim" }, t("newest n", { count: whole(found.length) }))),
    !found.length ? empty(trail().value.entries.length ? t("nothing matches") : t("no audit")) : table({
      name: "audit", rows: found, key: ({ entry }) => entry.id,
      columns: [
        [t("time"), ({ entry }) => h("time", { datetime: entry.at, title: entry.at }, when(entry.at)), "num time"],
        [t("outcome"), ({ entry }) => (entry.refused ? badge("refused", "bad", entry.refused) : badge("done", "good"))],
        [t("by"), ({ entry }) => entry.by || h("span", { class: "dim" }, t("a stranger")), "name"],
        [t("what"), ({ entry }) => h("span", { class: "mono", title: entry.what }, entry.what)],
        [t("changed.what"), ({ entry }) => h("span", { title: entry.refused || keysOf(entry) }, entry.refused || keysOf(entry)), "text wide"],
        [t("from where"), ({ entry }) => entry.origin, "wider"],
        [t("times"), ({ entry }) => whole(entry.count), "num wider"],
        [t("link"), ({ number, hash }) => (number ? h("span", { class: "mono", title: hash }, number) : h("span", { class: "dim", title: t("unsealed.title") }, "–")), "num wider"],
      ],
    }),
  ];
}

function wholeness() {
  return h("section", { class: "panel", "aria-label": t("wholeness") },
    h("header", null, h("h2", null, t("wholeness"))),
    h("div", { class: "filters" }, button(t("verify"), verify), h("code", null, "rota audit verify")),
    verdict ? outcome() : h("p", { class: "hint" }, t("wholeness hint")));
}

async function verify() {
  verdict = await get("/v1/audit/verify").catch((error) => ({ error: error.message }));
  redraw();
}

function outcome() {
  if (verdict.error || !verdict.is_whole) return h("p", { class: "trouble" }, verdict.error || verdict.flaw);
  return [
    h("p", null, badge("whole", "good"), " ", t("wholeness says", { links: whole(verdict.links), waiting: whole(verdict.waiting) })),
    h("p", { class: "hint" }, t("wholeness note"), " ", h("code", null, `rota audit verify --noted ${word(verdict.head)}`)),
  ];
}

function keysToTheDoor() {
  const rows = tokens.value.tokens;
  if (!rows.length) return empty(t("no tokens"), "rota token create NAME --role view");
  return table({
    name: "tokens", rows, key: (token) => token.name,
    columns: [
      [t("token"), (token) => token.name, "name"],
      [t("state"), (token) => badge(token.is_good ? "good" : token.revoked ? "revoked" : "expired", token.is_good ? "good" : "idle")],
      [t("may"), (token) => token.access],
      [t("ends"), (token) => (token.expires ? until(token.expires) : t("never")), "num wide"],
      [t("made"), (token) => `${ago(token.made)}${token.by ? ` · ${token.by}` : ""}`, "wide"],
      ["", (token) => token.is_good && verb(t("revoke"), () => revoke(token), { kind: "danger", needs: "admin" }), "act"],
    ],
  });
}

async function revoke(token) {
  const given = await askFirst({ title: t("revoke q", { name: token.name }), will: t("revoke will"), verb: t("revoke"), kind: "danger", command: `rota token revoke ${word(token.name)}` });
  if (!given) return;
  await act(() => post(`/v1/tokens/${part(token.name)}/revoke`), t("revoke done", { name: token.name }));
  tokens.nudge();
}
