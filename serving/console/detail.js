// Why this node, or what is known of one.

import { podName } from "./decisions.js";
import { explanation } from "./explanation.js";
import { byId, element, setText } from "./dom.js";
import { METRICS, amount, duration, percent, reading } from "./figures.js";

const NARROW = "(max-width: 900px)";

export class Detail {
  constructor() {
    this.body = byId("detail-body");
    this.node = null; // the name of the one that is shown
  }

  showNode(node, nodes) {
    this.node = node.name;
    this.put(`Node ${node.name}`, ...nodeFigures(node, nodes));
  }

  // The figures of a node go on changing while they are looked at.
  refresh(nodes) {
    const node = nodes.nodes.find(({ name }) => name === this.node);
    if (node) this.body.replaceChildren(...nodeFigures(node, nodes));
  }

  // What the decision itself tells is shown at once; the contributions come when the sidecar has worked them out.
  async showDecision({ decision }) {
    this.node = null;
    const title = `Why ${podName(decision)} → ${decision.best ?? "no node"}`;
    const reasons = element("div", { id: "reasons" }, element("p", { class: "quiet" }, "asking the sidecar …"));
    this.put(title, facts(decision), reasons, ...candidates(decision), ...rejected(decision));
    reasons.replaceChildren(...(await explanation(decision)));
  }

  put(title, ...content) {
    setText(byId("detail-title"), title);
    this.body.replaceChildren(...content);
    if (matchMedia(NARROW).matches) byId("detail").scrollIntoView({ block: "start" });
  }
}

function nodeFigures(node, { receivedAt, staleAfter }) {
  const waited = (performance.now() - receivedAt) / 1000;
  const rows = Object.keys(METRICS).map((metric) => figureRow(node, metric, waited, staleAfter));
  const head = element("tr", {}, ...["", "used", "of", "full", "age"].map((name) => element("th", { scope: "col", class: name ? "number" : null }, name)));
  return [sentence(nodeFacts(node)), element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows))];
}

const sentence = (parts) => element("p", {}, parts.filter(Boolean).join(" · "));

function nodeFacts(node) {
  return [
    node.zone ?? "no zone",
    `${amount(node.pods_running, "pods")}`,
    `requested ${amount(node.cpu_requested_millicores, "millicores")}, ${amount(node.memory_requested_mib, "MiB")}`,
    node.schedulable ? "" : "takes no new pods",
  ];
}

function figureRow(node, metric, waited, staleAfter) {
  const { label, used, size, unit } = METRICS[metric];
  const now = reading(node, metric, waited, staleAfter);
  const cell = (text, bad) => element("td", { class: bad ? "number bad" : "number" }, text);
  return element(
    "tr", {}, element("th", { scope: "row" }, label), cell(amount(used(node), unit)), cell(amount(size(node), unit)),
    cell(now.share === undefined ? now.why : percent(now.share), now.state !== "known"),
    cell(now.age === undefined ? "–" : `${duration(now.age)}${now.state === "stale" ? ", stale" : ""}`, now.state === "stale"),
  );
}

function facts(decision) {
  const ages = Object.entries(decision.ages_s).map(([group, age]) => `${group} ${age === null ? "unknown" : duration(age)}`);
  return element(
    "div", {},
    sentence([
      `by ${decision.source}${decision.model ? ` (${decision.model})` : ""} in ${decision.took_ms.toFixed(1)} ms`,
      `at ${new Date(decision.at_s * 1000).toLocaleTimeString()}`,
      `from data of age ${ages.join(", ")}`,
      decision.bound ? `bound to ${decision.bound}` : "not seen bound",
      decision.applied ? "" : `answered neutral, because of mode ${decision.mode}`,
    ]),
    decision.reason ? element("p", { class: "bad" }, decision.reason) : null,
  );
}

function candidates({ top, candidates: count }) {
  const rows = top.map(({ node, score, value }) =>
    element("tr", {}, element("td", {}, node), element("td", { class: "number" }, String(score)), element("td", { class: "number" }, value.toPrecision(4))));
  const head = element("tr", {}, element("th", { scope: "col" }, "node"), element("th", { scope: "col", class: "number" }, "score, 0 to 10"), element("th", { scope: "col", class: "number" }, "value"));
  const title = element("h3", {}, `Best of ${count} ${count === 1 ? "candidate" : "candidates"}`);
  return rows.length ? [title, element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows))] : [];
}

function rejected({ filtered }) {
  const reasons = Object.entries(filtered).map(([reason, count]) =>
    element("tr", {}, element("td", {}, reason), element("td", { class: "number" }, `${count} ${count === 1 ? "node" : "nodes"}`)));
  return reasons.length ? [element("h3", {}, "Filtered"), element("table", {}, element("tbody", {}, ...reasons))] : [];
}
