// Dialogue states, standard terms, and the windows of long documents.

import { nameOf, palette } from "../colors.js";
import { h } from "../dom.js";
import { bars, counted, nothing, percent, plain, table } from "./parts.js";
import { chosen, classBars, gauge, verdict } from "./classes.js";

export function dialogue({ answer, item, model }) {
  const speakers = { user: "User", sys: "System" };
  const turns = item.turns.map(({ role, text }) =>
    h("li", { class: `turn ${role}` }, h("small", {}, speakers[role] ?? role), h("p", { dir: "auto" }, text)),
  );
  const columns = [{ name: "Slot" }, { name: "Value" }, { name: "Score", number: true }];
  const rows = answer.slots.map(({ slot, value, score }) => [nameOf(model, slot), h("b", {}, h("bdi", {}, value)), percent(score)]);
  const state = rows.length > 0 ? table(columns, rows) : nothing("Nothing was asked for yet.");
  return [h("div", { class: "dialogue", lang: model.language }, h("ol", { class: "turns", "aria-label": "Dialogue" }, turns), h("div", { class: "state" }, state))];
}

export function terms({ answer, item, model }) {
  const columns = [{ name: "Term" }, { name: "Code" }, { name: "Score", number: true }];
  const rows = answer.terms.map(({ name, code, score }) => [
    h("b", {}, h("bdi", {}, name)),
    code === null ? "–" : h("code", {}, code),
    score === null ? "not found" : plain(score),
  ]);
  const names = new Set(answer.terms.map((term) => term.name));
  const ranking = answer.candidates.map(({ name, code, score }) => ({ name, note: code, score, class: "hue-0", chosen: names.has(name) }));
  return [
    h("p", { class: "from-to", lang: model.language }, h("bdi", {}, item.text), h("span", { "aria-hidden": "true" }, "→"), h("bdi", {}, answer.terms.map((term) => term.name).join(" + "))),
    h("div", { lang: model.language }, table(columns, rows)),
    ranking.length > 0 && h("section", { lang: model.language }, h("h4", {}, "Ranking"), bars(ranking, { format: plain, limit: 10 })),
  ];
}

export function document({ answer, item, model }) {
  const texts = item.notes?.map((note) => note.text) ?? [item.text];
  const hue = palette(model.labels);
  return [
    answer.value !== null && gauge(answer, model),
    verdict(answer, model),
    classBars(answer.scores, model, chosen(answer)),
    h("h4", {}, `Read in ${counted(answer.windows.length, "window")}`),
    map(answer.windows, texts, hue),
    h("ol", { class: "windows" }, answer.windows.map(window)),
  ];

  function window({ note, start, end, scores, value }, i) {
    const place = `${item.notes ? `note ${note + 1}, ` : ""}${start}–${end}`;
    const said = scores.slice(0, 3).map(({ label, score }, rank) => ({ name: nameOf(model, label), score, class: hue(label), chosen: rank === 0 }));
    const text = h("p", { class: "excerpt", dir: "auto", lang: model.language }, texts[note].slice(start, end));
    const says = h("div", {}, said.length > 0 ? bars(said) : null, value !== null && h("p", { class: "number" }, `value ${value.toFixed(2)}`));
    return h("li", {}, h("div", {}, h("small", {}, `Window ${i + 1} · ${place}`), text), says);
  }
}

/** Where the windows lie, one line a note; each has the colour of its best class. */
function map(windows, texts, hue) {
  const lines = texts.map((text, note) => {
    const own = windows.filter((window) => window.note === note);
    const pieces = own.map(({ start, end, scores }, i) =>
      h("span", {
        class: `piece ${scores.length > 0 ? hue(scores[0].label) : "hue-0"}${i % 2 ? " odd" : ""}`,
        vars: { "--from": `${(100 * start) / text.length}%`, "--width": `${(100 * (end - start)) / text.length}%` },
      }),
    );
    return h("div", { class: "line" }, pieces);
  });
  return h("div", { class: "map", "aria-hidden": "true" }, lines);
}
