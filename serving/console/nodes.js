// Nodes by zone, one tile each: how full by the chosen metric, and how old that is.

import { byId, element, setAttribute, setText } from "./dom.js";
import { LEVELS, METRICS, duration, percent, reading, shortNames } from "./figures.js";

const ROOMY_UP_TO = 60; // nodes
const DENSE_FROM = 300;
const WAITING = "No nodes yet: the sidecar has not seen the cluster. GET /readyz says what it waits for; its log says why.";

export class Nodes {
  constructor(onChoose) {
    this.zones = byId("zones");
    this.tiles = []; // in the order of the nodes
    this.nodes = [];
    this.chosen = null;
    this.metric = "nic";
    this.shape = "";
    byId("colour-by").addEventListener("change", (event) => { this.metric = event.target.value; this.draw(); });
    this.zones.addEventListener("click", (event) => this.choose(event.target.closest(".tile"), onChoose));
    this.zones.addEventListener("keydown", (event) => this.move(event));
    this.zones.addEventListener("focusin", (event) => this.rove(event.target.closest(".tile")));
    drawScale();
  }

  show(state) {
    const { name: names = [], ...columns } = state.nodes;
    this.nodes = names.map((name, index) => {
      const node = { name };
      for (const column in columns) node[column] = columns[column][index];
      return node;
    });
    this.staleAfter = state.stale_after_s;
    this.receivedAt = performance.now();
    const shape = JSON.stringify([names, columns.zone]);
    if (shape !== this.shape) this.build(names);
    this.shape = shape;
    this.draw();
  }

  build(names) {
    const short = shortNames(names);
    const byZone = new Map();
    this.tiles = this.nodes.map((node, index) => {
      const tile = newTile(short[index], node.name, index);
      const zone = node.zone ?? "";
      if (!byZone.has(zone)) byZone.set(zone, []);
      byZone.get(zone).push(tile);
      return tile;
    });
    const sections = [...byZone].sort(([a], [b]) => a.localeCompare(b, "en", { numeric: true })).map(newZone);
    this.zones.replaceChildren(...sections);
    this.zones.classList.toggle("roomy", names.length <= ROOMY_UP_TO);
    this.zones.classList.toggle("dense", names.length >= DENSE_FROM);
    this.rove(this.tiles[0]);
  }

  draw() {
    byId("no-nodes").hidden = this.nodes.length > 0;
    setText(byId("no-nodes"), WAITING);
    const waited = (performance.now() - this.receivedAt) / 1000;
    let lacking = 0;
    this.nodes.forEach((node, index) => {
      const now = reading(node, this.metric, waited, this.staleAfter);
      if (now.state !== "known") lacking += 1;
      paint(this.tiles[index], node, now, METRICS[this.metric].label);
    });
    const without = lacking ? `, ${lacking} without a fresh figure` : "";
    setText(byId("nodes-title"), this.nodes.length ? `Nodes: ${this.nodes.length}${without}` : "Nodes");
  }

  choose(tile, onChoose) {
    if (!tile) return;
    this.mark(tile);
    onChoose(this.nodes[Number(tile.dataset.index)]);
  }

  // Show where a decision went.
  point(name) {
    const tile = this.tiles[this.nodes.findIndex((node) => node.name === name)] ?? null;
    this.mark(tile);
    tile?.scrollIntoView({ block: "nearest" });
  }

  mark(tile) {
    this.chosen?.setAttribute("aria-pressed", "false");
    this.chosen = tile;
    tile?.setAttribute("aria-pressed", "true");
  }

  // One tab stop for all tiles: a thousand would lock the keyboard in.
  rove(tile) {
    if (!tile) return;
    this.stop?.setAttribute("tabindex", "-1");
    this.stop = tile;
    tile.setAttribute("tabindex", "0");
  }

  move(event) {
    const tile = event.target.closest(".tile");
    const all = tile ? [...this.zones.querySelectorAll(".tile")] : [];
    const target = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const next = target ? all[all.indexOf(tile) + target] : vertical(all, tile, event.key);
    if (!next) return;
    event.preventDefault();
    next.focus();
  }
}

function vertical(all, tile, key) {
  if (key === "Home") return all[0];
  if (key === "End") return all.at(-1);
  if (!tile || (key !== "ArrowDown" && key !== "ArrowUp")) return null;
  const from = tile.getBoundingClientRect();
  const inColumn = (other) => Math.abs(other.getBoundingClientRect().left - from.left) < from.width / 2;
  const at = all.indexOf(tile);
  return key === "ArrowDown" ? all.slice(at + 1).find(inColumn) : all.slice(0, at).findLast(inColumn);
}

function newTile(short, name, index) {
  const parts = ["name", "value", "age"].map((kind) => element("span", { class: kind, "aria-hidden": "true" }));
  parts[0].textContent = short;
  return element("button", { type: "button", class: "tile", tabindex: "-1", "aria-pressed": "false", "data-index": index, "data-node": name }, ...parts);
}

function newZone([zone, tiles]) {
  const title = element("h3", {}, zone || "no zone", element("span", {}, `${tiles.length} ${tiles.length === 1 ? "node" : "nodes"}`));
  const items = tiles.map((tile) => element("li", {}, tile));
  return element("section", { class: "zone", "aria-label": `Zone ${zone || "unknown"}` }, title, element("ul", { class: "tiles" }, ...items));
}

function paint(tile, node, now, label) {
  const value = { known: () => percent(now.share), stale: () => `(${percent(now.share)})`, unknown: () => "unknown" }[now.state]();
  const age = now.state === "unknown" ? "" : duration(now.age);
  const kind = now.state === "known" ? `load-${now.level}` : now.state;
  setAttribute(tile, "class", `tile ${kind}${node.schedulable ? "" : " cordoned"}`);
  setText(tile.children[1], value);
  setText(tile.children[2], now.state === "stale" ? `${age} old` : age);
  setAttribute(tile, "aria-label", spoken(node, now, label));
}

function spoken(node, now, label) {
  const figure = { known: () => `${percent(now.share)}, ${duration(now.age)} old`, stale: () => `stale: ${percent(now.share)}, ${duration(now.age)} old`, unknown: () => `unknown, ${now.why}` }[now.state]();
  return `${node.name}: ${label} ${figure}${node.schedulable ? "" : ", takes no new pods"}`;
}

function drawScale() {
  const limits = [0, ...LEVELS].map((limit) => Math.round(limit * 100));
  const steps = limits.map((limit, level) => element("span", { class: `load-${level}` }, level === limits.length - 1 ? `${limit}%+` : `${limit}`));
  byId("scale").append(...steps, element("span", { class: "stale" }, "stale or unknown"));
  byId("scale").setAttribute("aria-label", `Colours from ${limits.join(", ")} percent on; hatched: stale or unknown`);
}
