// The reference of the API, drawn from the node's own /openapi.json. It loads nothing from elsewhere.
//
// The description needs a token like everything else; whoever has come in to the dashboard is in here as well. Texts of
// the description are English, so this page is.

import { comeBack, comeIn, get, isIn } from "./api.js";
import { h, render } from "./dom.js";

const root = document.getElementById("app");
const METHODS = ["get", "post", "put", "patch", "delete"];
const LONGEST = 20_000; // characters of an answer that are shown

let described = null;
let trouble = "";
let wanted = ""; // only operations with this text
const tried = new Map(); // operation → what came of trying it

async function begin() {
  if (isIn()) {
    try {
      described = await get("/openapi.json");
      trouble = "";
    } catch (error) {
      trouble = error.message;
    }
  }
  draw();
  document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
}

function draw() {
  document.documentElement.dataset.theme =
    localStorage.getItem("rota.theme") || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  document.body.className = "api";
  if (!described) return render(root, isIn() && !trouble ? h("p", { class: "lonely" }, "Loading …") : wayIn());
  const tags = described.tags.map((tag) => [tag, operations(tag.name)]).filter(([, found]) => found.length);
  render(root,
    h("header", { class: "top" },
      h("a", { class: "brand", href: "/" }, h("img", { src: "/static/icon.svg", alt: "", width: "20", height: "20" }), "Rota API"),
      h("span", { class: "dim" }, described.info.version), h("span", { class: "space" }),
      h("input", { type: "search", placeholder: "Filter", "aria-label": "Filter", value: wanted, oninput: (event) => { wanted = event.target.value; draw(); } }),
      h("a", { class: "wide", href: "/openapi.json" }, "openapi.json")),
    h("nav", { "aria-label": "Parts" },
      tags.map(([tag]) => h("a", { key: tag.name, href: `#${slug(tag.name)}` }, tag.name)),
      h("a", { key: "errors", href: "#errors" }, "Errors")),
    h("main", null,
      h("div", { class: "heading" }, h("h1", null, "API of this fleet")),
      h("section", { class: "panel intro" }, h("header", null, h("h2", null, "How to ask")), texts(described.info.description)),
      tags.map(([tag, found]) => h("section", { key: tag.name, class: "panel", id: slug(tag.name), "aria-label": tag.name },
        h("header", null, h("h2", null, tag.name), h("span", { class: "hint" }, tag.description)),
        found.map(operation))),
      errors()));
}

const slug = (name) => name.toLowerCase().replaceAll(" ", "-");

function operations(tag) {
  const text = wanted.trim().toLowerCase();
  return Object.entries(described.paths).flatMap(([path, methods]) =>
    METHODS.filter((method) => methods[method]?.tags[0] === tag).map((method) => ({ path, method, ...methods[method] })))
    .filter((each) => !text || `${each.method} ${each.path} ${each.summary} ${each.operationId}`.toLowerCase().includes(text));
}

function operation(each) {
  return h("details", { key: each.operationId, class: "operation", id: each.operationId },
    h("summary", null,
      h("span", { class: `method ${each.method}` }, each.method.toUpperCase()),
      h("span", { class: "path" }, each.path),
      h("span", { class: "text" }, each.summary),
      h("span", { class: "badge idle", title: "The role that the token needs" }, each["x-role"] || "no token")),
    h("div", { class: "inside" },
      texts(each.description),
      each.parameters.length > 0 && [h("h3", null, "Parameters"), parameters(each.parameters)],
      each.requestBody && [h("h3", null, `Body${each.requestBody.required ? "" : " (optional)"}`), ...content(each.requestBody.content)],
      h("h3", null, "Answer"),
      Object.entries(each.responses).filter(([status]) => status.startsWith("2")).map(([status, answer]) =>
        [h("p", null, h("b", null, status), ` ${answer.description}`), ...content(answer.content || {})]),
      h("h3", null, "Errors"),
      h("p", null, each["x-error-codes"].map((code) => [h("a", { href: `#${code}` }, h("code", null, code)), " "])),
      each.method === "get" && !goesOn(each) && trying(each)));
}

const goesOn = (each) => "text/event-stream" in (each.responses["200"]?.content || {});

// Paragraphs; what stands between backticks is code.
const texts = (text) => (text || "").split("\n\n").map((part) => h("p", null, words(part)));
const words = (text) => text.split("`").map((part, number) => (number % 2 ? h("code", null, part) : part));

const table = (headings, rows) => h("div", { class: "table" },
  h("table", null, h("thead", null, h("tr", null, headings.map(([name, kind]) => h("th", { class: kind || "" }, name)))), h("tbody", null, rows)));

function parameters(list) {
  return table([["Name"], ["Type", "kind"], ["Meaning"], ["Example", "kind"]], list.map((each) => h("tr", null,
    h("td", { class: "field" }, each.name, each.required || each.in === "path" ? "" : h("span", { class: "dim" }, " ?")),
    h("td", { class: "kind" }, `${each.in}, ${kind(each.schema)}`),
    h("td", { class: "says" }, words(each.description)),
    h("td", { class: "kind" }, h("code", null, shown(each.example))))));
}

function content(media) {
  return Object.entries(media).flatMap(([type, each]) => [
    type !== "application/json" && h("p", { class: "dim" }, type),
    each.schema && fields(each.schema),
    each.example !== undefined && h("details", { class: "schema" }, h("summary", null, "Example"), h("pre", { class: "json" }, JSON.stringify(each.example, null, 2))),
  ]);
}

// The fields of a record; those of records within it are behind their names.
function fields(schema, depth = 0) {
  const found = resolved(schema);
  if (!found.properties) return found.description ? h("p", { class: "dim" }, words(found.description)) : null;
  const needed = new Set(found.required || []);
  const rows = Object.entries(found.properties).map(([name, each]) => {
    const inner = depth < 3 && record(each);
    return h("tr", null,
      h("td", { class: "field" }, name, needed.has(name) ? "" : h("span", { class: "dim" }, " ?")),
      h("td", { class: "kind" }, kind(each)),
      h("td", { class: "says" }, words(each.description || ""), options(each),
        inner && h("details", { class: "schema", ontoggle: (event) => open(event, inner, depth) }, h("summary", null, inner), h("div", null))));
  });
  return table([["Field"], ["Type", "kind"], ["Meaning"]], rows);
}

// What is inside a record is drawn when somebody wants to see it.
function open(event, name, depth) {
  if (event.target.open) render(event.target.querySelector(":scope > div"), fields(described.components.schemas[name], depth + 1));
}

const nameOf = (ref) => ref.slice(ref.lastIndexOf("/") + 1);
const resolved = (schema) => (schema.$ref ? described.components.schemas[nameOf(schema.$ref)] : schema);

// The record that a field holds, alone, in a list or in an object; nothing if it holds none.
function record(schema) {
  if (schema.$ref) return resolved(schema).properties ? nameOf(schema.$ref) : null;
  for (const each of [schema.items, schema.additionalProperties, ...(schema.anyOf || [])]) {
    const name = each && typeof each === "object" && record(each);
    if (name) return name;
  }
  return null;
}

function options(schema) {
  const found = [schema, ...(schema.anyOf || [])].map(resolved).find((each) => each.enum);
  return found && found.enum.length < 20 ? h("span", { class: "dim" }, " One of ", found.enum.map((each, number) => [number ? ", " : "", h("code", null, each)]), ".") : null;
}

function kind(schema) {
  if (schema.$ref) return nameOf(schema.$ref);
  if (schema.anyOf) return schema.anyOf.map(kind).join(" or ");
  if (schema.type === "array") return `list of ${kind(schema.items || {})}`;
  if (schema.type === "object" && schema.additionalProperties?.type) return `object of ${kind(schema.additionalProperties)}`;
  return schema.format ? `${schema.format}` : schema.type || "any";
}

const shown = (value) => (typeof value === "string" ? value : JSON.stringify(value));

// Asking the node, for what changes nothing.
function trying(each) {
  const result = tried.get(each.operationId);
  const asked = each.parameters.filter((parameter) => parameter.in !== "header");
  return [
    h("h3", null, "Try"),
    h("form", { class: "try", onsubmit: (event) => send(event, each, asked) },
      asked.map((parameter) => h("label", null, parameter.name,
        h("input", { name: parameter.name, placeholder: shown(parameter.example), required: parameter.in === "path", autocomplete: "off", spellcheck: "false" }))),
      h("button", { class: "button primary", type: "submit" }, `GET ${each.path}`)),
    result && h("pre", { class: "json" }, result),
  ];
}

async function send(event, each, asked) {
  event.preventDefault();
  const told = new FormData(event.target);
  let path = each.path;
  const query = new URLSearchParams();
  for (const parameter of asked) {
    const value = told.get(parameter.name);
    if (parameter.in === "path") path = path.replace(`{${parameter.name}}`, encodeURIComponent(value));
    else if (value) query.append(parameter.name, value);
  }
  const asking = `${path}${query.size ? `?${query}` : ""}`;
  const text = await get(asking).then((value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2)), (error) => `${error.status || ""} ${error.message}`);
  tried.set(each.operationId, `GET ${asking}\n\n${text.length > LONGEST ? `${text.slice(0, LONGEST)}\n…` : text}`);
  draw();
}

function errors() {
  const found = Object.values(described.components.responses).flatMap((each) =>
    Object.entries(each.content["application/problem+json"].examples).map(([code, shownAs]) => [code, shownAs.value]));
  return h("section", { class: "panel", id: "errors", "aria-label": "Errors" },
    h("header", null, h("h2", null, "Errors"), h("span", { class: "hint" }, "application/problem+json, with a code that never changes its meaning")),
    h("div", { class: "inside" }, table([["Code"], ["Status"], ["Meaning, and what to do"]], found.map(([code, value]) =>
      h("tr", { id: code }, h("td", { class: "field" }, code), h("td", null, String(value.status)), h("td", { class: "says" }, words(value.detail)))))));
}

function wayIn() {
  return h("form", { class: "way-in", onsubmit: enter },
    h("h1", null, h("img", { src: "/static/icon.svg", alt: "", width: "28", height: "28" }), "Rota API"),
    h("p", null, "The description of the API needs a token, as the API does."),
    h("label", null, "Token", h("input", { name: "token", type: "password", required: true, autocomplete: "off", spellcheck: "false" })),
    trouble && h("p", { class: "trouble", role: "alert" }, trouble),
    h("button", { class: "button primary", type: "submit" }, "Open"));
}

async function enter(event) {
  event.preventDefault();
  try {
    await comeIn(new FormData(event.target).get("token").trim());
  } catch (error) {
    trouble = error.message;
    return draw();
  }
  await begin();
}

addEventListener("hashchange", () => {
  const there = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (there?.tagName === "DETAILS") there.open = true;
});

await comeBack();
await begin();
