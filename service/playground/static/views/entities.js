// Entities where they stand in the text, those within others too.

import { nameOf, palette, types } from "../colors.js";
import { h } from "../dom.js";
import { depth, marked } from "../marks.js";
import { chip, counted, folded, nothing, percent, reading, table } from "./parts.js";

export function entities({ answer, item, model }) {
  const hue = palette(types(model));
  const spans = answer.entities.map((entity) => ({
    start: entity.start,
    end: entity.end,
    class: `entity ${hue(entity.type)}`,
    label: nameOf(model, entity.type),
    title: `${nameOf(model, entity.type)} · ${percent(entity.score)}`,
  }));
  return [
    reading(model.language, marked(item.text, spans), `marked deep-${Math.min(5, depth(spans))}`),
    spans.length > 0 ? listed(answer.entities, model, hue) : nothing("No entity was found in this text."),
    answer.tags?.length > 0 && folded("Tags of every character", tags(item.text, answer.tags, model, hue)),
  ];
}

function listed(found, model, hue) {
  const rows = found.map((entity) => [
    chip(nameOf(model, entity.type), hue(entity.type)),
    h("bdi", { lang: model.language }, entity.text),
    `${entity.start}–${entity.end}`,
    percent(entity.score),
  ]);
  const columns = [{ name: "Type" }, { name: "Text" }, { name: "Place", number: true }, { name: "Score", number: true }];
  const whole = table(columns, rows);
  return rows.length > 12 ? folded(counted(rows.length, "entity", "entities"), whole) : whole;
}

function tags(text, given, model, hue) {
  const cells = [...text].map((character, i) => {
    const type = given[i]?.slice(2);
    return h("li", { class: type ? hue(type) : "" }, h("b", {}, character === " " ? "␣" : character), h("small", {}, given[i] ?? ""));
  });
  return h("ol", { class: "tags", lang: model.language }, cells);
}
