// The output of an attempt, as it comes.
//
// Lines are text, with the colours that terminals know; other escape sequences are left out. A page keeps the newest
// lines only, and cuts those that are longer than anybody reads: the whole is what the command line shows.

import { h } from "./dom.js";
import { bytes } from "./format.js";
import { keepOpen, letGo, Stream } from "./live.js";
import { t } from "./words.js";

const LINES = 5_000;
const LONGEST = 20_000; // characters of a line
const ESCAPE = /\x1b(?:\[([0-9;?]*)([@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])/g;
const COLOURS = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];

// A line in parts of one look each: [text, classes].
export function painted(line, look) {
  const parts = [];
  let from = 0;
  for (const found of line.matchAll(ESCAPE)) {
    if (found.index > from) parts.push([line.slice(from, found.index), classes(look)]);
    from = found.index + found[0].length;
    if (found[2] === "m") repaint(look, found[1]);
  }
  if (from < line.length) parts.push([line.slice(from), classes(look)]);
  return parts;
}

const classes = (look) => [look.bold && "bold", look.colour && `ink-${look.colour}`].filter(Boolean).join(" ");

function repaint(look, codes) {
  const numbers = codes.split(";").map(Number);
  for (let at = 0; at < numbers.length; at += 1) {
    const code = numbers[at];
    if (code === 0) Object.assign(look, { bold: false, colour: "" });
    else if (code === 1) look.bold = true;
    else if (code === 22) look.bold = false;
    else if (code >= 30 && code <= 37) look.colour = COLOURS[code - 30];
    else if (code >= 90 && code <= 97) look.colour = COLOURS[code - 90];
    else if (code === 39) look.colour = "";
    else if (code === 38 || code === 48) at += numbers[at + 1] === 5 ? 2 : 4; // colours by number are not shown
  }
}

let views = 0;

export class LogView {
  constructor(run, attempt, path) {
    Object.assign(this, { run, attempt, element: null, next: 0, rest: "", look: {}, waiting: [], lines: 0, left: 0 });
    this.key = `log ${(views += 1)}`;
    const query = () => `${path}?offset=${this.next}${this.attempt ? `&attempt=${this.attempt}` : ""}`;
    this.stream = new Stream(query, (event, data) => event === "output" && this.take(data), { isOnce: true });
    keepOpen(this.stream);
  }

  close() {
    letGo(this.stream);
  }

  take(data) {
    if (this.attempt !== null && data.attempt !== this.attempt) this.clear();
    this.attempt = data.attempt;
    this.next = data.next;
    const lines = (this.rest + data.text).split("\n");
    this.rest = lines.pop();
    if (this.rest.length > LONGEST) {
      lines.push(this.rest); // nobody waits for the end of such a line
      this.rest = "";
    }
    this.append(lines);
  }

  clear() {
    Object.assign(this, { rest: "", look: {}, waiting: [], lines: 0, left: 0 });
    this.element?.replaceChildren();
  }

  append(lines) {
    this.waiting = [...this.waiting, ...lines].slice(-LINES);
    this.flush();
  }

  flush() {
    if (!this.element || !this.waiting.length) return;
    const box = this.element;
    const isAtEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
    const fresh = document.createDocumentFragment();
    for (const line of this.waiting) fresh.append(this.drawn(line));
    this.lines += this.waiting.length;
    this.waiting = [];
    box.append(fresh);
    for (; this.lines > LINES; this.lines -= 1, this.left += 1) box.firstChild.remove();
    if (isAtEnd) box.scrollTop = box.scrollHeight;
  }

  drawn(line) {
    const row = document.createElement("div");
    const shown = line.length > LONGEST ? line.slice(0, LONGEST) : line;
    for (const [text, kind] of painted(shown.replace(/\r/g, ""), this.look)) {
      const part = document.createElement("span");
      part.className = kind;
      part.textContent = text;
      row.append(part);
    }
    if (shown.length < line.length) row.append(` … ${t("more characters", { count: line.length - shown.length })}`);
    if (!row.firstChild) row.append("\u200b");
    return row;
  }

  says(run) {
    const { error, isOver, isOpen } = this.stream;
    if (error && !isOver) return error.message;
    const size = bytes(this.next);
    const cut = this.left ? ` · ${t("lines left out", { count: this.left })}` : "";
    return isOver || (run.ended && !isOpen) ? `${size}${cut}` : `${size} · ${t("following")}${cut}`;
  }

  view() {
    if (this.stream.isOver && this.rest) {
      this.append([this.rest]);
      this.rest = "";
    }
    return [
      h("div", { key: this.key, class: "output mono", own: true, tabindex: "0", role: "log", "aria-label": t("output"), made: (element) => { this.element = element; queueMicrotask(() => this.flush()); } }),
      this.stream.isOver && this.next === 0 && h("p", { class: "hint" }, t("no output")),
    ];
  }
}
