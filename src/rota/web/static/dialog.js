// Questions before something is done, and a word afterwards.

import { h, render } from "./dom.js";
import { nudge } from "./live.js";
import { t } from "./words.js";

// Ask before doing; `fields` are [name, label, {type, value, placeholder, required, min, options}]. Returns what was
// given, or null if the answer was no.
export function askFirst({ title, says, will, verb, kind = "primary", fields = [], command }) {
  return new Promise((answer) => {
    const dialog = document.createElement("dialog");
    const finish = (given) => {
      dialog.remove();
      answer(given);
    };
    render(dialog, h("form", {
      method: "dialog",
      onsubmit: (event) => {
        event.preventDefault();
        finish(Object.fromEntries(new FormData(event.target)));
      },
    },
    h("h2", null, title),
    says && h("p", null, says),
    will && h("p", { class: "will" }, h("b", null, t("will happen")), " ", will),
    fields.map(([name, label, about = {}]) => h("label", null, label, control(name, about))),
    command && h("p", { class: "same" }, h("code", { class: "cli" }, h("span", { class: "words" }, command))),
    h("footer", null,
      h("button", { type: "button", class: "button", onclick: () => finish(null) }, t("cancel")),
      h("button", { type: "submit", class: `button ${kind}`, autofocus: fields.length === 0 }, verb))));
    dialog.oncancel = () => finish(null);
    document.body.append(dialog);
    dialog.showModal();
  });
}

function control(name, { options, ...about }) {
  if (!options) return h("input", { name, type: "text", autocomplete: "off", ...about });
  return h("select", { name }, options.map((each) => h("option", { value: each }, each)));
}

export function toast(text, kind = "good") {
  const shown = document.createElement("div");
  shown.className = `toast ${kind}`;
  shown.textContent = text;
  document.getElementById("toasts").append(shown);
  setTimeout(() => shown.remove(), kind === "bad" ? 12_000 : 5_000);
}

// Do something and say what came of it; `parts` are what it changes.
export async function act(work, done, ...parts) {
  try {
    const result = await work();
    toast(typeof done === "function" ? done(result) : done);
    nudge(...parts);
    return result;
  } catch (error) {
    toast(error.message, "bad");
    return null;
  }
}
