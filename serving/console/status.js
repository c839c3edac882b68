// The head of the page: is it alive, who answers, from how old data.

import { byId, element, setAttribute, setText } from "./dom.js";
import { duration } from "./figures.js";

const LAST_STEP = "neutral"; // always there, and never fails

export function showConnection(state, why) {
  const text = { connecting: "connecting", live: "live", lost: `connection lost (${why}); trying again` }[state];
  byId("connection").dataset.state = state;
  setText(byId("connection"), text);
}

export function showState(state, waited, answering) {
  const age = state.age_s === null ? null : state.age_s + waited;
  showFacts([
    ["mode", state.mode],
    ["model", state.models.loaded.map(shortLabel).join(", ") || "none"],
    ["cluster state", age === null ? "unknown" : `${duration(age)} old`, age === null || age > state.stale_after_s],
    ["waiting pods", age === null ? "unknown" : String(state.queue_length)],
    ["assumed pods", String(state.assumed)],
  ]);
  showLadder([...state.ladder, { step: LAST_STEP, breaker: "closed" }], answering);
  const problems = state.models.problems;
  byId("problems").hidden = problems.length === 0;
  setText(byId("problems"), problems.join("; "));
}

// A label is a kind and a digest; of the digest some characters tell models apart.
const shortLabel = (label) => label.replace(/(@\w{6})\w+$/, "$1");

function showFacts(facts) {
  const list = byId("facts");
  if (list.children.length !== facts.length) {
    list.replaceChildren(...facts.map(([name]) => element("div", {}, element("dt", {}, name), element("dd"))));
  }
  facts.forEach(([, value, bad], index) => {
    const shown = list.children[index].lastChild;
    setText(shown, value);
    setAttribute(shown, "class", bad ? "bad" : null);
  });
}

function showLadder(steps, answering) {
  const list = byId("ladder");
  const shape = steps.map(({ step }) => step).join();
  if (list.dataset.shape !== shape) list.replaceChildren(...steps.map(() => element("li")));
  list.dataset.shape = shape;
  steps.forEach(({ step, breaker }, index) => {
    const item = list.children[index];
    setText(item, breaker === "closed" ? step : `${step}: breaker ${breaker}`);
    setAttribute(item, "data-breaker", breaker);
    setAttribute(item, "data-answers", step === answering ? "" : null);
    setAttribute(item, "aria-current", step === answering ? "step" : null);
    item.title = step === answering ? "gave the newest answer" : `breaker ${breaker}`;
  });
}
