// The HTTP API of the node that served this page.
//
// A token is exchanged for a session: a cookie that scripts cannot read, and a word that changes must show with it. Only
// a page of this node is told the word, so a page of another site can make a browser ask and gets nothing done.

const MARK = "rota.session"; // that there may be a session; who has never come in need not ask

let session = null; // { name, access, csrf }
let turnedAway = () => {};

export class Refused extends Error {
  constructor(status, sentence) {
    super(sentence);
    this.status = status;
  }
}

export const isIn = () => session !== null;

// Does the token of this session have that role, or one that includes it?
const ROLES = ["view", "operate", "admin", "node"];
export const may = (role) => session !== null && ROLES.indexOf(session.access) >= ROLES.indexOf(role);

// Go on with the session that this browser has, if it has one.
export async function comeBack() {
  if (!localStorage.getItem(MARK)) return;
  try {
    session = await ask("GET", "/v1/session");
  } catch {
    localStorage.removeItem(MARK);
  }
}

export async function comeIn(token) {
  session = await ask("POST", "/v1/session", { token });
  localStorage.setItem(MARK, "yes");
}

export async function goOut() {
  await ask("DELETE", "/v1/session").catch(() => {});
  session = null;
  localStorage.removeItem(MARK);
}

// What to do when the node does not know the session any more.
export function onTurnedAway(act) {
  turnedAway = act;
}

export const get = (path) => ask("GET", path);
export const post = (path, body = {}) => ask("POST", path, body);
export const patch = (path, body) => ask("PATCH", path, body);
export const remove = (path) => ask("DELETE", path);

export async function ask(method, path, body, patience = 20_000) {
  const answer = await send(method, path, body, AbortSignal.timeout(patience));
  if (answer.status === 204) return null;
  const type = answer.headers.get("content-type") || "";
  return type.startsWith("application/json") ? answer.json() : answer.text();
}

async function send(method, path, body, signal) {
  const headers = {};
  if (session && method !== "GET") headers["x-rota-csrf"] = session.csrf;
  if (body !== undefined) headers["content-type"] = "application/json";
  const answer = await fetch(path, {
    method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body), credentials: "same-origin",
  });
  if (answer.ok) return answer;
  const said = await answer.json().catch(() => ({}));
  if (answer.status === 401 && session) {
    session = null;
    turnedAway();
  }
  throw new Refused(answer.status, said.error || `${answer.status} ${answer.statusText}`);
}

// Read a stream of events until it ends or `signal` says so; `tell(event, data, id)` gets each.
export async function follow(path, tell, signal) {
  const answer = await send("GET", path, undefined, signal);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) tellBlock(block, tell);
  }
}

function tellBlock(block, tell) {
  const fields = {};
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    if (colon > 0) fields[line.slice(0, colon)] = line.slice(colon + 1).trimStart();
  }
  if (fields.event) tell(fields.event, JSON.parse(fields.data), fields.id);
  else tell("quiet", null);
}

export const part = encodeURIComponent;
