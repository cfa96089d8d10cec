// A text with spans marked in it, those within others too.

import { h } from "./dom.js";

/**
 * Nodes of `text` in which every span is a <mark>: `{start, end, class, label, title}`, offsets in UTF-16 units.
 * `data-span` is the span's place in the list. A span that crosses the end of another is marked in two pieces.
 */
export function marked(text, spans) {
  return nodes(text, nested(spans), 0, text.length);
}

/** How deep the deepest span lies: 0 without spans. */
export function depth(spans) {
  const deep = (tree) => Math.max(0, ...tree.map((piece) => 1 + deep(piece.inside)));
  return deep(nested(spans));
}

function nested(spans) {
  const queue = spans.map((span, index) => ({ span, index, from: span.start, to: span.end, opens: true, closes: true }));
  const sort = () => queue.sort((a, b) => a.from - b.from || b.to - a.to || a.index - b.index);
  const root = { from: 0, to: Infinity, inside: [] };
  const open = [root];
  sort();
  while (queue.length > 0) {
    const piece = queue.shift();
    while (piece.from >= open.at(-1).to) open.pop();
    const around = open.at(-1);
    if (piece.to > around.to) {
      queue.push({ ...piece, from: around.to, opens: false });
      sort();
      Object.assign(piece, { to: around.to, closes: false });
    }
    piece.inside = [];
    around.inside.push(piece);
    open.push(piece);
  }
  return root.inside;
}

function nodes(text, tree, from, to) {
  const found = [];
  let at = from;
  for (const piece of tree) {
    if (piece.from > at) found.push(text.slice(at, piece.from));
    found.push(mark(text, piece));
    at = piece.to;
  }
  if (at < to) found.push(text.slice(at, to));
  return found;
}

function mark(text, { span, index, from, to, opens, closes, inside }) {
  const shape = `${opens ? "" : " from-before"}${closes ? "" : " goes-on"}`;
  // The label is drawn from an attribute, so that the mark's text is the text and nothing else.
  const props = { class: `${span.class}${shape}`, "data-span": index, title: span.title, "data-label": closes && span.label };
  return h("mark", props, nodes(text, inside, from, to));
}
