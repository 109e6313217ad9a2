// The words of the screens, in the reader's language.
//
// One table per language, each with every word of the first one. What the fleet itself says (reasons, errors, events) is
// shown as it was written.

import { EN } from "./words/en.js";
import { ZH } from "./words/zh.js";

export const LANGUAGES = { en: ["English", EN], zh: ["中文", ZH] };

const KEY = "rota.language";
let chosen = localStorage.getItem(KEY) || (navigator.language.startsWith("zh") ? "zh" : "en");
if (!(chosen in LANGUAGES)) chosen = "en";
document.documentElement.lang = chosen;

export const language = () => chosen;

export function speak(which) {
  chosen = which;
  localStorage.setItem(KEY, which);
  document.documentElement.lang = which;
}

// The text of a word; `{name}` in it stands for a value.
export function t(word, values = {}) {
  const text = LANGUAGES[chosen][1][word] ?? EN[word] ?? word;
  return text.replace(/\{(\w+)\}/g, (_, name) => String(values[name] ?? ""));
}
