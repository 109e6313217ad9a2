// What the screens show, kept fresh.
//
// A source is one thing that can be asked of the API, with the moment of its last answer. It is asked again when the
// pulse names a part of the fleet that it depends on, and every few seconds in any case, so that its age is honest: a
// number that nobody confirmed for a while is shown as stale. While nobody looks at the page, nothing is asked.

import { follow, get } from "./api.js";

export const STALE = 12_000; // milliseconds without an answer
const OFTEN = 250; // from one question to the next at least, while things change
const REST = 3; // and this many times as long as the answer took: who is slow is asked less
const NOW_AND_THEN = 5_000; // from one to the next at most

const sources = new Map();
let shown = new Set();
let changed = () => {};

export function onChange(act) {
  changed = act;
}

export class Source {
  constructor(path, parts, { read = get, often = OFTEN, every = NOW_AND_THEN } = {}) {
    Object.assign(this, { path, parts, read, often, every, value: undefined, at: 0, began: 0, took: 0, error: null, timer: 0, isAsking: false, isNudged: false });
  }

  get isStale() {
    return this.at > 0 && Date.now() - this.at > STALE;
  }

  // Ask again soon, but not more often than is good. The first time is now: what is drawn meanwhile takes longer.
  nudge() {
    if (this.isAsking) {
      this.isNudged = true; // what has changed may be missing in the answer that is under way
      return;
    }
    if (this.timer) return;
    const wait = this.began + Math.max(this.often, Math.min(REST * this.took, NOW_AND_THEN)) - Date.now();
    if (wait <= 0) this.ask();
    else this.timer = setTimeout(() => this.ask(), wait);
  }

  async ask() {
    Object.assign(this, { timer: 0, isAsking: true, isNudged: false, began: Date.now() });
    try {
      this.value = await this.read(this.path, this.value);
      this.at = Date.now();
      this.error = null;
    } catch (error) {
      this.error = error;
    }
    this.isAsking = false;
    this.took = Date.now() - this.began;
    changed();
    if (this.isNudged) this.nudge();
  }
}

// The source of a path; there is one of each. `read(path, before)` asks; `often` and `every` are milliseconds.
export function source(path, parts = [], how = {}) {
  if (!sources.has(path)) sources.set(path, new Source(path, parts, how));
  return sources.get(path);
}

// Say which sources are on the screen; those are kept fresh.
export function show(list) {
  const wanted = new Set(list);
  for (const each of wanted) if (!shown.has(each)) each.nudge();
  for (const each of shown) if (!wanted.has(each)) each.left?.();
  shown = wanted;
  if (sources.size > 60) for (const [path, each] of sources) if (!wanted.has(each)) sources.delete(path);
}

export function nudge(...parts) {
  for (const each of shown) if (each.parts.some((part) => parts.includes(part))) each.nudge();
}

setInterval(() => {
  if (document.hidden) return;
  for (const each of shown) if (Date.now() - each.began >= each.every) each.nudge();
}, 1_000);

// A stream of events, opened again when it breaks off, and closed while nobody looks.
export class Stream {
  constructor(path, tell, { isOnce = false } = {}) {
    Object.assign(this, { path, tell, isOnce, abort: null, isOpen: false, isOver: false, error: null, wait: 0 });
  }

  open() {
    if (this.abort || this.isOver) return;
    this.abort = new AbortController();
    this.run(this.abort.signal);
  }

  close() {
    this.abort?.abort();
    this.abort = null;
    this.isOpen = false;
  }

  async run(signal) {
    while (!signal.aborted) {
      try {
        const path = typeof this.path === "function" ? this.path() : this.path;
        await follow(path, (event, data, id) => {
          this.isOpen = true;
          this.error = null;
          this.wait = 0;
          this.tell(event, data, id);
        }, signal);
        if (this.isOnce) {
          this.isOver = true;
          break;
        }
      } catch (error) {
        if (signal.aborted) return;
        this.error = error;
      }
      this.isOpen = false;
      changed();
      this.wait = Math.min(5_000, this.wait * 2 || 300);
      await new Promise((resume) => setTimeout(resume, this.wait));
    }
    this.isOpen = false;
    changed();
  }
}

const beat = new Stream("/v1/pulse/watch", (event, data) => {
  if (event === "beat") nudge(...data.parts);
});

const streams = new Set([beat]);

export function keepOpen(stream) {
  streams.add(stream);
  if (!document.hidden) stream.open();
}

export function letGo(stream) {
  streams.delete(stream);
  stream.close();
}

let isOn = false;

function look() {
  if (!isOn) return;
  for (const each of streams) document.hidden ? each.close() : each.open();
  if (!document.hidden) for (const each of shown) each.nudge();
}

document.addEventListener("visibilitychange", look);

export function start() {
  isOn = true;
  look();
}

export function stop() {
  isOn = false;
  show([]);
  for (const each of streams) each.close();
}

export const isLive = () => beat.isOpen;

const GLANCE = 100; // resources; more than a screen shows
const named = (resource) => ({ ...resource, name: `${resource.kind}/${resource.id}` });

// Resources, told one by one as they change. There may be thousands, so they are not asked for again and again. The first
// of them are asked for beforehand: a screen need not wait until all are told.
class Resources {
  constructor() {
    Object.assign(this, { path: "/v1/resources/watch", parts: [], error: null, began: 0, last: 0, isSynced: false, isWanted: false });
    this.all = new Map();
    this.first = undefined;
    this.after = null;
    this.sorted = null;
    this.stream = new Stream(
      () => this.path + (this.after ? `?after=${this.after}` : ""),
      (event, data, id) => this.take(event, data, id),
    );
  }

  get value() {
    this.sorted ??= [...this.all.values()].sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
    return this.isSynced || this.all.size ? this.sorted : this.first;
  }

  // While the stream is open, what was told is how it is.
  get at() {
    return this.stream.isOpen ? Date.now() : this.last;
  }

  get isStale() {
    return this.at > 0 && Date.now() - this.at > STALE;
  }

  async nudge() {
    const isFirst = this.began === 0;
    Object.assign(this, { began: Date.now(), isWanted: true });
    if (isFirst) await this.glance().catch(() => {}); // the stream will say what is wrong
    if (this.isWanted) keepOpen(this.stream);
  }

  left() {
    this.isWanted = false;
    letGo(this.stream);
  }

  // Those that come first in the order of their names.
  async glance() {
    const page = await get(`/v1/resources?limit=${GLANCE}`);
    this.first = page.resources.map(named);
    this.last = Date.now();
    changed();
  }

  take(event, data, id) {
    this.last = Date.now();
    if (event === "put") this.all.set(`${data.kind}/${data.id}`, named(data));
    else if (event === "delete") this.all.delete(`${data.kind}/${data.id}`);
    else if (event === "reset") {
      this.all.clear();
      this.after = null;
    } else if (event === "synced") this.isSynced = true;
    if (id) this.after = id;
    this.sorted = null;
    changed();
  }
}

export const resources = new Resources();
