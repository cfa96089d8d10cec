// Classes as bars, a number as a gauge, the relation of two spans with both in the text.

import { nameOf, palette } from "../colors.js";
import { h, svg } from "../dom.js";
import { marked } from "../marks.js";
import { bars, nothing, reading } from "./parts.js";

const ROLES = [
  ["subject", "Subject", "hue-0"],
  ["object", "Object", "hue-2"],
];

export function classes({ answer, model }) {
  return [answer.value !== null && gauge(answer, model), verdict(answer, model), classBars(answer.scores, model, chosen(answer))];
}

export function relation(drawn) {
  const { item, model } = drawn;
  const spans = ROLES.map(([role, name, hue]) => ({ ...item[role], class: `entity ${hue}`, label: name, title: name }));
  return [reading(model.language, marked(item.text, spans), "marked"), classes(drawn)];
}

/** What was decided, in a line. */
export function verdict(answer, model) {
  const hue = palette(model.labels);
  const named = (label) => h("span", { class: `verdict ${model.labels.includes(label) ? hue(label) : ""}` }, h("bdi", {}, nameOf(model, label)));
  if (answer.label !== null) return h("p", { class: "verdicts" }, named(answer.label));
  if (answer.labels.length > 0) return h("p", { class: "verdicts" }, answer.labels.map(({ label }) => named(label)));
  return answer.value === null && nothing("No class reached the threshold.");
}

export function classBars(scores, model, picked) {
  if (scores.length === 0) return null;
  const hue = palette(model.labels);
  return bars(scores.map(({ label, score }) => row(label, score, picked.has(label))));

  function row(label, score, is) {
    const name = nameOf(model, label);
    return { name, score, class: hue(label), note: name !== label && label, chosen: is };
  }
}

export function chosen(answer) {
  return new Set(answer.label === null ? answer.labels.map(({ label }) => label) : [answer.label]);
}

/** A number on its scale; it may lie past either end, since it is the model's own. */
export function gauge({ value }, model) {
  const number = value.toFixed(2);
  if (!model.score_range) return h("p", { class: "big-number" }, number);
  const [low, high] = model.score_range;
  const part = Math.max(0, Math.min(1, (value - low) / (high - low)));
  return h(
    "figure",
    { class: "gauge" },
    svg(
      "svg",
      { viewBox: "0 0 240 140", role: "img", "aria-label": `${number} on a scale from ${low} to ${high}` },
      svg("path", { class: "scale", d: arc(0, 1) }),
      part > 0 && svg("path", { class: "reached", d: arc(0, part) }),
      svg("circle", { class: "needle", cx: point(part, 86)[0], cy: point(part, 86)[1], r: 9 }),
      svg("text", { class: "value", x: 120, y: 112 }, number),
      svg("text", { class: "end", x: 34, y: 136 }, String(low)),
      svg("text", { class: "end", x: 206, y: 136 }, String(high)),
    ),
  );
}

function point(part, radius) {
  const angle = Math.PI * (1 - part);
  return [120 + radius * Math.cos(angle), 116 - radius * Math.sin(angle)];
}

function arc(from, to) {
  return `M ${point(from, 86).join(" ")} A 86 86 0 0 1 ${point(to, 86).join(" ")}`;
}
