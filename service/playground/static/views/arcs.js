// The dependency tree of a sentence as arcs over its words.

import { nameOf } from "../colors.js";
import { h, svg } from "../dom.js";
import { folded, nothing, percent, table } from "./parts.js";
import { measure } from "./measure.js";

const STEP = 30; // between levels of arcs
const GAP = 22; // between words, at least
const SIDE = 14;
const CORNER = 9;

export function arcs({ answer, model }) {
  const { words } = answer;
  if (words.length === 0) return nothing("No word was read.");
  const columns = [{ name: "#", number: true }, { name: "Word" }, { name: "Head" }, { name: "Relation" }, { name: "Score", number: true }];
  const form = (index) => (index === 0 ? "(root)" : `${index} ${words[index - 1]?.form ?? ""}`);
  const rows = words.map((w) => [String(w.index), w.form, form(w.head), nameOf(model, w.relation), percent(w.score)]);
  const label = words.map((w) => `${w.form}: ${nameOf(model, w.relation)} of ${form(w.head)}`).join("; ");
  return [
    h("div", { class: "scroller", tabindex: "0", role: "region", "aria-label": "Dependency arcs" }, drawing(words, model, label)),
    folded("The same as a table", h("div", { lang: model.language }, table(columns, rows))),
  ];
}

function drawing(words, model, label) {
  const links = words.map((w, at) => ({ at, head: w.head - 1, name: nameOf(model, w.relation), score: w.score }));
  const inner = links.filter((link) => link.head >= 0 && link.head < words.length);
  for (const link of inner) Object.assign(link, { low: Math.min(link.at, link.head), high: Math.max(link.at, link.head) });
  inner.sort((a, b) => a.high - a.low - (b.high - b.low) || a.low - b.low);
  const levels = leveled(inner);
  const { centres, width } = places(words, inner);
  const base = (levels + 1) * STEP + 12;
  const ends = attached(words.length, links);
  const drawn = [
    ...inner.map((link) => arc(link, centres, ends, base)),
    ...links.filter((link) => link.low === undefined).map((link) => root(link, centres[link.at] + ends(link.at, link), base, levels)),
  ];
  const named = words.map((w, i) => svg("text", { class: "word", x: centres[i], y: base + 24, lang: model.language }, w.form));
  const height = base + 36;
  return svg("svg", { class: "arcs", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, drawn, named);
}

/** Give every arc a level above all shorter ones that it spans or meets; the number of levels. */
function leveled(inner) {
  let most = 0;
  for (const [i, link] of inner.entries()) {
    const below = inner.slice(0, i).filter((other) => other.low < link.high && other.high > link.low);
    link.level = 1 + Math.max(0, ...below.map((other) => other.level));
    most = Math.max(most, link.level);
  }
  return most;
}

/** Where words stand, far enough apart for themselves and for the names of the arcs between them. */
function places(words, inner) {
  const sizes = words.map((w) => measure(w.form, "word"));
  const centres = [];
  let right = SIDE - GAP;
  for (const size of sizes) {
    centres.push(right + GAP + size / 2);
    right += GAP + size;
  }
  for (const link of inner) {
    const lack = measure(link.name, "relation") + 40 - (centres[link.high] - centres[link.low]);
    if (lack > 0) for (let i = link.high; i < centres.length; i += 1) centres[i] += lack;
  }
  return { centres, width: Math.ceil(centres.at(-1) + sizes.at(-1) / 2 + SIDE) };
}

/** How far from its middle each arc meets a word: arcs to the left on the left, and longer ones further in. */
function attached(count, links) {
  const byWord = Array.from({ length: count }, () => []);
  for (const link of links) {
    byWord[link.at].push([link, link.low === undefined ? 0 : link.head - link.at]);
    if (link.low !== undefined) byWord[link.head].push([link, link.at - link.head]);
  }
  // To the left, shortest first; the line to the root; to the right, longest first.
  for (const ends of byWord) ends.sort(([, a], [, b]) => Math.sign(a) - Math.sign(b) || b - a);
  return (word, link) => {
    const ends = byWord[word];
    const at = ends.findIndex(([other]) => other === link);
    return at < 0 ? 0 : (at - (ends.length - 1) / 2) * 9;
  };
}

function arc(link, centres, ends, base) {
  const from = centres[link.head] + ends(link.head, link);
  const to = centres[link.at] + ends(link.at, link);
  const top = base - link.level * STEP;
  const way = Math.sign(to - from);
  const d = `M ${from} ${base} V ${top + CORNER} Q ${from} ${top} ${from + way * CORNER} ${top} H ${to - way * CORNER} Q ${to} ${top} ${to} ${top + CORNER} V ${base - 5}`;
  return group(link, svg("path", { d }), tip(to, base), (from + to) / 2, top);
}

/** From above everything: a root, or a word whose head was not read. */
function root(link, x, base, levels) {
  const top = base - (levels + 1) * STEP;
  return group(link, svg("path", { d: `M ${x} ${top} V ${base - 5}` }), tip(x, base), x, top, " root");
}

function tip(x, base) {
  return svg("path", { class: "tip", d: `M ${x} ${base} l -4 -7 h 8 z` });
}

function group(link, line, head, x, y, extra = "") {
  const size = measure(link.name, "relation") + 10;
  const back = svg("rect", { x: x - size / 2, y: y - 9, width: size, height: 18, rx: 9 });
  const name = svg("text", { class: "relation", x, y: y + 4 }, link.name);
  const hint = svg("title", {}, `${link.name} · ${percent(link.score)}`);
  return svg("g", { class: `arc${extra}` }, hint, line, head, back, name);
}
