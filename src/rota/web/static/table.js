// Tables that may be long: only the rows that can be seen are on the page.
//
// Every row has the same height (`--row` of the style), so that where each one belongs is a matter of counting. The page
// scrolls as a whole; nothing scrolls within it but wide tables on narrow screens.

import { h } from "./dom.js";

const SPARE = 15; // rows above and below what is seen

// `columns` are [heading, cell(row), class]; `rows` a list; `key(row)` names a row; `href(row)` is where it leads.
export function table({ columns, rows, key, name, href, more }) {
  const { first, last, height } = seen(rows.length, name);
  const body = [];
  if (first > 0) body.push(h("tr", { key: "above", class: "gap", "aria-hidden": "true", style: { height: `${first * height}px` } }));
  for (let at = first; at < last; at += 1) body.push(line(columns, rows[at], key, href));
  if (last < rows.length) {
    body.push(h("tr", { key: "below", class: "gap", "aria-hidden": "true", style: { height: `${(rows.length - last) * height}px` } }));
  }
  if (more && last >= rows.length - SPARE) queueMicrotask(more);
  return h("div", { class: "table", id: `table-${name}` },
    h("table", { "aria-rowcount": rows.length },
      h("thead", null, h("tr", null, columns.map(([heading, , kind]) => h("th", { class: kind, scope: "col" }, heading)))),
      h("tbody", null, body)));
}

function line(columns, row, key, href) {
  const where = href?.(row);
  return h("tr", {
    key: key(row),
    class: where ? "leads" : "",
    onclick: where && ((event) => {
      if (!event.target.closest("a, button") && !getSelection().toString()) location.hash = where;
    }),
  }, columns.map(([, cell, kind]) => h("td", { class: kind }, h("div", null, cell(row)))));
}

function seen(count, name) {
  const there = document.getElementById(`table-${name}`);
  const height = parseFloat(getComputedStyle(there || document.documentElement).getPropertyValue("--row")) || 34;
  if (count <= 4 * SPARE) return { first: 0, last: count, height };
  const top = there?.querySelector("tbody").getBoundingClientRect().top ?? 0;
  const first = Math.min(count, Math.max(0, Math.floor(-top / height) - SPARE));
  const last = Math.min(count, Math.ceil((innerHeight - top) / height) + SPARE);
  return { first, last: Math.max(last, first), height };
}
