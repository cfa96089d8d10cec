// Triples: their spans in the text, and a graph of what they say.

import { nameOf, palette } from "../colors.js";
import { h, svg } from "../dom.js";
import { depth, marked } from "../marks.js";
import { fitted, measure } from "./measure.js";
import { nothing, percent, reading, table } from "./parts.js";

const WIDEST = 190; // of a node's text
const ROW = 30; // of a node
const LABEL = 18;

export function triples({ answer, item, model, width }) {
  if (answer.triples.length === 0) return [reading(model.language, item.text), nothing("No triple was found in this text.")];
  const all = answer.triples.flatMap(({ subject, object }) => [subject, object]);
  const hue = palette([...new Set(all.map((argument) => argument.type))].sort());
  const named = new Map(all.map((argument) => [`${argument.start} ${argument.end} ${argument.type}`, argument]));
  const spans = [...named.values()].map(({ start, end, type }) => ({ start, end, class: `entity ${hue(type)}`, label: nameOf(model, type), title: nameOf(model, type) }));
  const columns = [{ name: "Subject" }, { name: "Predicate" }, { name: "Object" }, { name: "Score", number: true }];
  const rows = answer.triples.map((t) => [t.subject.text, nameOf(model, t.predicate), t.object.text, percent(t.score)]);
  return [
    reading(model.language, marked(item.text, spans), `marked deep-${Math.min(5, depth(spans))}`),
    h("div", { class: "scroller", tabindex: "0", role: "region", "aria-label": "Graph of the triples" }, graph(answer.triples, model, hue, width)),
    h("div", { lang: model.language }, table(columns, rows)),
  ];
}

/** Entities on an ellipse, in order of the text; an edge bends to its left, so that two of one pair keep apart. */
function graph(found, model, hue, room) {
  const nodes = new Map();
  for (const { subject, object } of found) for (const one of [subject, object]) if (!nodes.has(one.text)) nodes.set(one.text, { ...one });
  const list = [...nodes.values()].sort((a, b) => a.start - b.start);
  for (const node of list) {
    node.name = fitted(node.text, "node", Math.min(WIDEST, room / 3));
    node.width = measure(node.name, "node") + 24;
  }
  const edge = Math.max(...list.map((node) => node.width)) / 2 + 8;
  const radius = { x: Math.max(90, Math.min(60 * list.length + 60, room / 2 - edge)), y: Math.max(70, 28 * list.length) };
  const size = { width: Math.max(2 * (radius.x + edge), 300), height: 2 * radius.y + 70 };
  for (const [i, node] of list.entries()) {
    const angle = Math.PI + (2 * Math.PI * i) / list.length;
    node.x = size.width / 2 + radius.x * Math.cos(angle);
    node.y = size.height / 2 + radius.y * Math.sin(angle);
  }
  const edges = found.map((t) => bent(nodes.get(t.subject.text), nodes.get(t.object.text), t, nameOf(model, t.predicate)));
  for (const one of edges) one.x = Math.max(one.width / 2 + 1, Math.min(size.width - one.width / 2 - 1, one.x));
  apart(edges, list);
  const label = found.map((t) => `${t.subject.text} ${nameOf(model, t.predicate)} ${t.object.text}`).join("; ");
  return svg(
    "svg",
    { class: "graph", width: size.width, height: size.height, viewBox: `0 0 ${size.width} ${size.height}`, role: "img", "aria-label": label },
    edges.map((edge) => svg("g", { class: "edge" }, svg("path", { d: edge.d }), svg("path", { class: "tip", d: edge.tip }))),
    list.map((node) => box(node, hue, model)),
    edges.map(caption),
  );
}

function bent(from, to, triple, name) {
  if (from === to) return loop(from, triple, name);
  const dx = to.x - from.x;
  const dy = to.y - from.y;
  const length = Math.hypot(dx, dy);
  const bend = { x: (from.x + to.x) / 2 + (dy / length) * 46, y: (from.y + to.y) / 2 - (dx / length) * 46 };
  const start = rim(from, bend);
  const end = rim(to, bend);
  const middle = { x: (start.x + 2 * bend.x + end.x) / 4, y: (start.y + 2 * bend.y + end.y) / 4 };
  const d = `M ${start.x} ${start.y} Q ${bend.x} ${bend.y} ${end.x} ${end.y}`;
  return { d, tip: arrow(bend, end), ...middle, ...labelOf(name), triple };
}

function loop(node, triple, name) {
  const y = node.y - ROW / 2;
  const d = `M ${node.x - 16} ${y} C ${node.x - 44} ${y - 52}, ${node.x + 44} ${y - 52}, ${node.x + 16} ${y}`;
  return { d, tip: arrow({ x: node.x + 26, y: y - 20 }, { x: node.x + 16, y }), x: node.x, y: y - 40, ...labelOf(name), triple };
}

function labelOf(name) {
  return { name, width: measure(name, "relation") + 14 };
}

/** Where the line from a node's middle to a point leaves its box. */
function rim(node, point) {
  const dx = point.x - node.x;
  const dy = point.y - node.y;
  const scale = Math.min(1, Math.min((node.width / 2 + 3) / Math.abs(dx || 1e-9), (ROW / 2 + 3) / Math.abs(dy || 1e-9)));
  return { x: node.x + dx * scale, y: node.y + dy * scale };
}

function arrow(from, to) {
  const angle = Math.atan2(to.y - from.y, to.x - from.x);
  const corner = (turn) => `${to.x - 9 * Math.cos(angle + turn)} ${to.y - 9 * Math.sin(angle + turn)}`;
  return `M ${to.x} ${to.y} L ${corner(0.42)} L ${corner(-0.42)} z`;
}

/** Move names of edges up or down until they cover neither each other nor a node. */
function apart(edges, nodes) {
  const fixed = nodes.map((node) => ({ ...node, height: ROW }));
  for (let round = 0; round < 60; round += 1) {
    let moved = false;
    for (const [i, edge] of edges.entries()) {
      for (const other of [...edges.slice(0, i), ...fixed]) {
        const tall = (LABEL + (other.height ?? LABEL)) / 2 + 3;
        const over = tall - Math.abs(edge.y - other.y);
        if (over <= 0 || Math.abs(edge.x - other.x) >= (edge.width + other.width) / 2 + 4) continue;
        const way = edge.y < other.y ? -1 : 1;
        edge.y += way * (other.height ? over : over / 2);
        if (!other.height) other.y -= (way * over) / 2;
        moved = true;
      }
    }
    if (!moved) return;
  }
}

function box(node, hue, model) {
  const { x, y, width } = node;
  return svg(
    "g",
    { class: `node ${hue(node.type)}` },
    svg("title", {}, `${node.text} · ${nameOf(model, node.type)}`),
    svg("rect", { x: x - width / 2, y: y - ROW / 2, width, height: ROW, rx: 8 }),
    svg("text", { x, y: y + 5, lang: model.language }, node.name),
  );
}

function caption({ x, y, width, name, triple }) {
  return svg(
    "g",
    { class: "caption" },
    svg("title", {}, `${triple.subject.text} · ${name} · ${triple.object.text} · ${percent(triple.score)}`),
    svg("rect", { x: x - width / 2, y: y - LABEL / 2, width, height: LABEL, rx: LABEL / 2 }),
    svg("text", { class: "relation", x, y: y + 4 }, name),
  );
}
