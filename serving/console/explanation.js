// What moved the score of the chosen node away from that of an average candidate, as bars to both sides.

import { post } from "./api.js";
import { element } from "./dom.js";
import { signed } from "./figures.js";

const SHOWN = 8;
const NO_UID = "A pod without a UID cannot be asked about later: POST /v1/explain with its requirements explains it anew.";

export async function explanation({ uid }) {
  if (!uid) return [note(NO_UID)];
  try {
    return described(await post("v1/explain", { uid }));
  } catch (why) {
    return [note(why.message)];
  }
}

const note = (text) => element("p", { class: "quiet" }, text);

function described({ sentence, contributions, remainder }) {
  if (!contributions.length) return [note(sentence)];
  const parts = contributions.map(({ feature, change }) => [feature, change]);
  const rest = parts.slice(SHOWN).reduce((sum, [, change]) => sum + change, 0);
  const rows = [...parts.slice(0, SHOWN), ["other features", rest], ["acting together", remainder ?? 0]];
  const shown = rows.filter(([, change]) => Math.abs(change) >= 0.005 * Math.abs(parts[0][1]));
  return [element("h3", {}, "Against an average candidate"), bars(shown, sentence)];
}

function bars(rows, sentence) {
  const largest = Math.max(...rows.map(([, change]) => Math.abs(change)));
  const cells = rows.flatMap(([feature, change]) => [element("span", {}, feature), bar(change / largest), element("span", { class: "number" }, signed(change))]);
  return element("div", { class: "bars", role: "img", "aria-label": sentence }, ...cells);
}

function bar(share) {
  const fill = element("i", { class: share < 0 ? "down" : "up" });
  fill.style.width = `${50 * Math.abs(share)}%`;
  fill.style[share < 0 ? "right" : "left"] = "50%";
  return element("span", { class: "bar" }, fill);
}
