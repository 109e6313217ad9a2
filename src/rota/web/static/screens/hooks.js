// Hooks: who is told of which events, and what became of that.

import { part, patch, post, remove } from "../api.js";
import { act, askFirst } from "../dialog.js";
import { h } from "../dom.js";
import { ago, whole, word } from "../format.js";
import { source } from "../live.js";
import { badge, empty, panel, verb } from "../parts.js";
import { table } from "../table.js";
import { t } from "../words.js";

const hooks = source("/v1/hooks", ["hooks"]);
const path = (hook) => `/v1/hooks/${part(hook.name)}`;

export default {
  command: () => "rota hooks ls",
  sources: () => [hooks],
  view: () => panel(t("screen.hooks"), hooks, all),
};

function all() {
  const rows = hooks.value.hooks;
  return [
    h("div", { class: "filters" }, h("span", { class: "num dim" }, whole(rows.length)), h("span", { class: "space" }), verb(t("add hook"), add, { kind: "primary", needs: "admin" })),
    !rows.length ? empty(t("no hooks"), "rota hooks add NAME --on EVENT --url URL") : table({
      name: "hooks", rows, key: (hook) => hook.name,
      columns: [
        [t("hook"), (hook) => hook.name, "name"],
        [t("state"), (hook) => badge(hook.enabled ? "enabled" : "disabled", hook.enabled ? "good" : "idle")],
        [t("tells of"), (hook) => h("span", { class: "mono" }, hook.events.join(" ")), "text wide"],
        [t("target"), (hook) => h("span", { class: "mono", title: target(hook) }, target(hook)), "text wide"],
        [t("waiting"), (hook) => whole(hook.waiting), "num wide"],
        [t("delivered"), (hook) => whole(hook.status.delivered), "num wide"],
        [t("failed"), (hook) => h("span", { class: hook.status.failed ? "warnish" : "", title: said(hook.status) }, whole(hook.status.failed)), "num wide"],
        [t("last time"), (hook) => (hook.status.last_at ? ago(hook.status.last_at) : t("never")), "num wider"],
        ["", verbs, "act"],
      ],
    }),
  ];
}

const target = (hook) => hook.url || hook.command.map(word).join(" ");

// What the command printed comes to admins alone.
const said = ({ error, output }) => (output ? `${error}: ${output}` : error);

const verbs = (hook) => [
  verb(t("try"), () => tryIt(hook)), " ",
  hook.enabled ? verb(t("disable"), () => enable(hook, false)) : verb(t("enable"), () => enable(hook, true)), " ",
  verb(t("delete"), () => destroy(hook), { kind: "danger", needs: "admin" }),
];

const enable = (hook, enabled) => act(() => patch(path(hook), { enabled }), t(enabled ? "hook on" : "hook off", { name: hook.name }), "hooks");

async function tryIt(hook) {
  const given = await askFirst({ title: t("try q", { name: hook.name }), will: t("try will", { target: target(hook) }), verb: t("try"), command: `rota hooks test ${word(hook.name)}` });
  if (!given) return;
  await act(async () => {
    const trial = await post(`${path(hook)}/test`);
    if (trial.error) throw new Error(t("try failed", { name: hook.name, why: said(trial) }));
  }, t("try done", { name: hook.name }), "hooks");
}

async function destroy(hook) {
  const given = await askFirst({ title: t("delete q", { name: hook.name }), will: t("delete hook will", { count: whole(hook.waiting) }), verb: t("delete"), kind: "danger", command: `rota hooks rm ${word(hook.name)}` });
  if (given) await act(() => remove(path(hook)), t("deleted", { name: hook.name }), "hooks");
}

async function add() {
  const given = await askFirst({
    title: t("add hook"), will: t("add hook will"), verb: t("add"),
    fields: [
      ["name", t("name"), { required: true }],
      ["events", t("tells of"), { required: true, placeholder: "node.* run.failed" }],
      ["url", "URL", { type: "url", required: true, placeholder: "https://" }],
    ],
    command: "rota hooks add NAME --on EVENT --url URL",
  });
  if (!given) return;
  const body = { name: given.name, events: given.events.trim().split(/[\s,]+/), url: given.url };
  await act(() => post("/v1/hooks", body), (made) => t("made it", { name: made.name }), "hooks");
}
