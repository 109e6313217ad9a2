// Long histories: the newest page is kept fresh, older pages are asked for when somebody scrolls to them.

import { get, part } from "./api.js";
import { source } from "./live.js";

export class Paged {
  constructor(path, parts, list, limit) {
    const first = `${path}${path.includes("?") ? "&" : "?"}limit=${limit}`;
    Object.assign(this, { path: first, list, older: [], next: undefined, isAsking: false });
    this.source = source(first, parts);
  }

  get rows() {
    const fresh = this.source.value?.[this.list] || [];
    if (!this.older.length) return fresh;
    const known = new Set(fresh.map((each) => each.id));
    return [...fresh, ...this.older.filter((each) => !known.has(each.id))];
  }

  get isWhole() {
    return this.next === null || (this.next === undefined && this.source.value?.next === null);
  }

  // The next older page; `then` when it has come.
  async more(then) {
    const token = this.next === undefined ? this.source.value?.next : this.next;
    if (this.isAsking || !token) return;
    this.isAsking = true;
    try {
      const page = await get(`${this.path}&token=${part(token)}`);
      this.older.push(...page[this.list]);
      this.next = page.next;
    } catch {
      return; // scrolling on asks again
    } finally {
      this.isAsking = false;
    }
    then();
  }
}
