// Puts the parts of the page together.

import { byId } from "./dom.js";
import { Decisions } from "./decisions.js";
import { Detail } from "./detail.js";
import { Nodes } from "./nodes.js";
import { showConnection, showState } from "./status.js";
import { follow } from "./stream.js";

const detail = new Detail();
const nodes = new Nodes((node) => { decisions.mark(null); detail.showNode(node, nodes); });
const decisions = new Decisions((entry) => { nodes.point(entry.decision.best); detail.showDecision(entry); });

const STATE_EVERY_S = 2.5; // the sidecar sends it every 2 s

let state = null;
let receivedAt = 0;

function draw() {
  if (state === null) return;
  const waited = (performance.now() - receivedAt) / 1000;
  showState(state, waited, decisions.newest?.source);
  if (waited > STATE_EVERY_S) nodes.draw(); // else it was drawn when the state came
  decisions.draw();
}

const handlers = {
  state(content) {
    state = content;
    receivedAt = performance.now();
    nodes.show(content);
    detail.refresh(nodes);
    draw();
  },
  decisions(content) {
    decisions.add(content);
    draw();
  },
};

new ResizeObserver(([{ target }]) => {
  document.documentElement.style.setProperty("--head", `${target.offsetHeight}px`);
}).observe(document.querySelector("header"));

setInterval(draw, 1000); // what is not heard of grows older
byId("no-nodes").hidden = true;
follow("v1/events", handlers, (now, why) => { if (now === "live") decisions.restart(); showConnection(now, why); });
