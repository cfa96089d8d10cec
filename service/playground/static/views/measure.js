// How wide a text of a drawing will be, before it is drawn.

const FONTS = { word: "--font-word", relation: "--font-relation", node: "--font-node" };
const context = document.createElement("canvas").getContext("2d");

/** Pixels that `text` takes as a "word", a "relation" or a "node", in the fonts of the style sheet. */
export function measure(text, kind) {
  context.font = getComputedStyle(document.documentElement).getPropertyValue(FONTS[kind]);
  return Math.ceil(context.measureText(text).width);
}

/** The beginning of a text that fits `width` pixels. */
export function fitted(text, kind, width) {
  if (measure(text, kind) <= width) return text;
  const characters = [...text];
  while (characters.length > 1 && measure(`${characters.join("")}…`, kind) > width) characters.pop();
  return `${characters.join("")}…`;
}
