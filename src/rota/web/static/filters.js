// Filters: what a list is narrowed to. They stand in the address, so that a link shows the same rows to somebody else.
//
// A screen with a list has `filters`: an object of texts, empty where nothing is chosen.

const LATER = 250; // milliseconds; a browser refuses to change the address at every key that is pressed

let timer = 0;

const path = () => location.hash.split("?")[0];

// Take what the address says. Where it says nothing, what was chosen before stays, and the address says that.
export function adopt(filters, query) {
  if (!query) return write(filters);
  const named = new URLSearchParams(query);
  for (const name of Object.keys(filters)) filters[name] = named.get(name) ?? "";
}

// Choose another value, and show the rows that are left.
export function choose(filters, name, value) {
  filters[name] = value;
  const screen = path();
  clearTimeout(timer);
  timer = setTimeout(() => path() === screen && write(filters), LATER);
  dispatchEvent(new Event("rota:redraw"));
}

function write(filters) {
  const chosen = new URLSearchParams(Object.entries(filters).filter(([, value]) => value));
  history.replaceState(null, "", chosen.size ? `${path()}?${chosen}` : path());
}
