// Decisions as they are made, newest first.

import { byId, element, setText } from "./dom.js";
import { duration } from "./figures.js";

const SHOWN = 100;
const RATE_OVER_S = 10;
const NONE = [
  "No decisions yet. They appear when kube-scheduler asks about a pod, or when you do: ",
  `curl -s ${location.origin}/v1/score -d '{"requirements": {"cpu": "500m", "network_mbps": 40}}'`,
];

export class Decisions {
  constructor(onChoose) {
    this.table = document.querySelector("#decisions table");
    this.rows = this.table.tBodies[0];
    this.shown = new Map(); // number -> {decision, row, at}
    this.waiting = []; // while paused
    this.paused = false;
    this.counts = []; // [received at, newest number], for the rate
    this.onChoose = onChoose;
    byId("no-decisions").append(NONE[0], element("code", {}, NONE[1]));
    byId("pause").addEventListener("click", () => this.pause(!this.paused));
    this.rows.addEventListener("click", (event) => this.choose(event.target.closest("tr")));
  }

  get newest() {
    return this.last ?? null;
  }

  add({ now_s: now, decisions, bound }) {
    for (const { number, bound: node } of bound) this.rebind(number, node);
    const received = performance.now() / 1000;
    const fresh = decisions.map((decision) => ({ decision, at: received - (now - decision.at_s) }));
    if (!fresh.length) return;
    this.last = fresh.at(-1).decision;
    this.counts.push([received, this.last.number]);
    if (this.paused) this.waiting = [...this.waiting, ...fresh].slice(-SHOWN);
    else this.put(fresh);
  }

  // The sidecar was started again and counts from one.
  restart() {
    this.shown.clear();
    this.rows.replaceChildren();
    this.waiting = [];
    this.counts = [];
  }

  put(fresh) {
    for (const entry of fresh) {
      if (this.shown.has(entry.decision.number)) continue;
      entry.row = newRow(entry.decision);
      this.shown.set(entry.decision.number, entry);
      this.rows.prepend(entry.row);
    }
    for (const [number, { row }] of this.shown) {
      if (this.shown.size <= SHOWN) break;
      this.shown.delete(number);
      row.remove();
    }
    this.draw();
  }

  draw() {
    const now = performance.now() / 1000;
    byId("no-decisions").hidden = this.shown.size > 0;
    this.table.hidden = this.shown.size === 0;
    for (const { row, at } of this.shown.values()) setText(row.cells[5], duration(now - at));
    this.counts = this.counts.filter(([at], index) => now - at < RATE_OVER_S || index === this.counts.length - 1);
    setText(byId("rate"), this.rate(now));
  }

  rate(now) {
    if (!this.counts.length) return "";
    const [since, first] = this.counts[0];
    const perSecond = (this.counts.at(-1)[1] - first) / Math.max(now - since, 1);
    return this.paused ? `${this.waiting.length} waiting` : `${perSecond.toFixed(1)} a second`;
  }

  rebind(number, node) {
    const entry = this.shown.get(number) ?? this.waiting.find((waiting) => waiting.decision.number === number);
    if (!entry) return;
    entry.decision.bound = node;
    if (entry.row) entry.row.cells[2].replaceChildren(boundText(entry.decision));
  }

  pause(paused) {
    this.paused = paused;
    byId("pause").setAttribute("aria-pressed", String(paused));
    setText(byId("pause"), paused ? "Go on" : "Pause");
    if (!paused) this.put(this.waiting.splice(0));
    this.draw();
  }

  choose(row) {
    if (!row) return;
    this.mark(row);
    this.onChoose(this.shown.get(Number(row.dataset.number)));
  }

  mark(row) {
    this.rows.querySelector("[aria-selected='true']")?.removeAttribute("aria-selected");
    row?.setAttribute("aria-selected", "true");
  }
}

function newRow(decision) {
  const { number, name, namespace, best, source, took_ms: took } = decision;
  const pod = element("button", { type: "button", class: "link" }, podName(decision));
  pod.title = namespace ? `${namespace}/${name}` : name;
  return element(
    "tr", { "data-number": number },
    element("td", {}, pod),
    element("td", { title: best }, best ?? element("span", { class: "bad" }, "no node fits")),
    element("td", {}, boundText(decision)),
    element("td", { title: source }, source),
    element("td", { class: "number" }, `${took.toFixed(took < 10 ? 1 : 0)} ms`),
    element("td", { class: "number" }),
  );
}

export const podName = ({ name, uid, number }) => name || uid || `#${number}`;

function boundText({ bound, best }) {
  if (!bound) return element("span", { class: "quiet" }, "–");
  return bound === best ? element("span", { class: "quiet" }, "same") : element("span", { class: "bad", title: bound }, bound);
}
