// The answer where it stands in its context; choices and blanks with what speaks for each.

import { h, replace } from "../dom.js";
import { marked } from "../marks.js";
import { bars, folded, nothing, percent, reading } from "./parts.js";

export function question({ answer, item, model }) {
  const context = reading(model.language, [], "marked");
  const buttons = answer.answers.map((span, i) => option(span, span.text, () => show(i)));
  const none = answer.null_score !== null && option({ score: answer.null_score }, "No answer", () => show(null));
  const best = answer.answer === null ? null : 0;
  show(best);

  function show(which) {
    const span = which === null ? null : answer.answers[which];
    replace(context, marked(item.context, span ? [{ ...span, class: "entity answer hue-0", title: percent(span.score) }] : []));
    for (const [i, button] of buttons.entries()) button.setAttribute("aria-pressed", String(i === which));
    if (none) none.setAttribute("aria-pressed", String(which === null));
  }

  return [
    h("p", { class: "verdicts" }, best === null ? h("span", { class: "verdict" }, "No answer in this context") : h("span", { class: "verdict hue-0", lang: model.language }, h("bdi", {}, answer.answer.text))),
    context,
    h("div", { class: "options-list", role: "group", "aria-label": "Answers, best first" }, buttons, none),
  ];
}

/** A candidate as a button with its bar, which shows where it stands. */
function option({ score }, name, click) {
  const width = `${100 * score}%`;
  return h(
    "button",
    { type: "button", class: "option", on: { click } },
    h("bdi", {}, name),
    h("span", { class: "track", "aria-hidden": "true" }, h("span", { class: "fill", vars: { "--w": width } })),
    h("span", { class: "number" }, percent(score)),
  );
}

export function choices({ answer, model }) {
  const rows = answer.scores.map(({ choice, text, score }) => ({
    name: text,
    score,
    class: "hue-0",
    chosen: choice === answer.choice,
  }));
  return [
    h("p", { class: "verdicts" }, h("span", { class: "verdict hue-0", lang: model.language }, h("bdi", {}, answer.text))),
    h("div", { lang: model.language }, bars(rows, { limit: 20 })),
  ];
}

export function cloze({ answer, item, model }) {
  const passages = item.passages.map((text, i) => reading(model.language, filled(text, answer.blanks.filter((blank) => blank.passage === i)), "marked"));
  const each = answer.blanks.map((blank, i) => {
    const rows = item.candidates.map((name, choice) => ({ name, score: blank.scores[choice], class: "hue-0", chosen: choice === blank.choice }));
    rows.sort((a, b) => b.score - a.score);
    return h("section", {}, h("h4", {}, `Blank ${i + 1}`), h("div", { lang: model.language }, bars(rows, { limit: 10 })));
  });
  if (each.length === 0) return [passages, nothing("There was no blank to fill.")];
  return [passages, each.length > 4 ? folded("What speaks for each candidate", each) : h("div", { class: "columns" }, each)];
}

function filled(text, blanks) {
  const parts = [];
  let at = 0;
  for (const blank of blanks) {
    parts.push(text.slice(at, blank.start), h("mark", { class: "entity answer hue-0", title: `in place of ${blank.blank}` }, blank.text));
    at = blank.end;
  }
  return [...parts, text.slice(at)];
}
