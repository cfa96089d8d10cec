// What each head family is called here, and the forms of its item.

import { check, choice, list, number, text } from "./fields.js";
import { spanPair } from "./spans.js";

const topK = (label, placeholder) => () => number("top_k", label, { min: 1, placeholder });
const threshold = () => number("threshold", "Least score", { min: 0, max: 1, step: "any", placeholder: "none" });
const cut = () => overflow([["truncate", "Read what fits"]]);
const windows = () => overflow([["window", "Read it in windows"], ["truncate", "Read what fits"]]);

function overflow(ways) {
  return choice("on_overflow", "Text past the limit", [["", "As the model does"], ...ways, ["error", "Refuse it"]]);
}

const ROLES = [["user", "User"], ["sys", "System"]];
const one = (...fields) => [{ name: "Form", fields }];
const area = (key, label, options) => () => text(key, label, options);
const words = (sentence) => sentence.split(/\s+/).filter(Boolean);

/**
 * `title`; `forms`: ways to write an item, `fits(item)` says whether a form can show one and `from(item)` brings another
 * form's item to it; `options`: what may be left out; `defaults`: options that the page sets instead of the example's.
 */
const FAMILIES = {
  "text-classification": {
    title: "Text classification",
    forms: one(area("text", "Text")),
    options: [topK("Classes to list", "all"), cut],
  },
  "pair-classification": {
    title: "Text pairs",
    forms: one(area("text", "First text"), area("text_pair", "Second text")),
    options: [topK("Classes to list", "all"), cut],
  },
  "span-pair-classification": {
    title: "Relation of two spans",
    forms: one(spanPair),
    options: [topK("Classes to list", "all"), cut],
  },
  "token-classification": {
    title: "Entities",
    forms: one(area("text", "Text")),
    options: [threshold, windows, () => check("tags", "Show every character's tag")],
  },
  "span-classification": {
    title: "Nested entities",
    forms: one(area("text", "Text")),
    options: [threshold, windows],
  },
  "question-answering": {
    title: "Question answering",
    forms: one(area("question", "Question", { rows: 1 }), area("context", "Context", { rows: 3 })),
    options: [topK("Answers to list", "1"), windows],
    defaults: { top_k: 5 },
  },
  "multiple-choice": {
    title: "Multiple choice",
    forms: one(
      area("context", "Context", { rows: 3 }),
      area("question", "Question", { rows: 1, optional: true }),
      () => list("choices", "Choices", [{ key: "choice", label: "Choice" }], { shape: "strings", add: "Add a choice" }),
    ),
    options: [cut],
  },
  cloze: {
    title: "Cloze",
    forms: one(
      () => list("passages", "Passages", [{ key: "passage", label: "Passage", rows: 2 }], { shape: "strings", add: "Add a passage" }),
      () => list("candidates", "Candidates", [{ key: "candidate", label: "Candidate" }], { shape: "strings", add: "Add a candidate" }),
    ),
    options: [],
  },
  "dependency-parsing": {
    title: "Dependency parsing",
    forms: [
      {
        name: "Sentence",
        fields: [area("text", "Sentence", { rows: 2 })],
        fits: (item) => item.words === undefined && item.pos === undefined,
        from: ({ words: given, pos: _, ...item }) => ({ text: given?.join(" ") ?? "", ...item }),
      },
      {
        name: "Words",
        fields: [
          () =>
            list("words", "Words", [{ key: "words", label: "Word" }, { key: "pos", label: "Parts of speech, if the model reads them", optional: true }], {
              shape: "columns",
              add: "Add a word",
            }),
        ],
        fits: (item) => item.text === undefined,
        from: ({ text: given, ...item }) => ({ words: words(given ?? ""), ...item }),
      },
    ],
    options: [cut],
  },
  "dialogue-state": {
    title: "Dialogue state",
    forms: one(() =>
      list("turns", "Turns", [{ key: "role", label: "Who speaks", options: ROLES }, { key: "text", label: "What is said" }], {
        add: "Add a turn",
        fresh: ({ turns }) => ({ role: turns.at(-1)?.role === "user" ? "sys" : "user" }),
      }),
    ),
    options: [cut],
  },
  "triple-extraction": {
    title: "Triples",
    forms: one(area("text", "Text")),
    options: [threshold, windows],
  },
  "term-normalization": {
    title: "Term normalization",
    forms: one(area("text", "Term as it was written", { rows: 1 })),
    options: [topK("Candidates to list", "none")],
    defaults: { top_k: 10 },
  },
  "document-classification": {
    title: "Long documents",
    forms: [
      {
        name: "One text",
        fields: [area("text", "Document", { rows: 5 })],
        fits: (item) => item.notes === undefined,
        from: ({ notes, ...item }) => ({ text: notes?.map((note) => note.text).join("\n\n") ?? "", ...item }),
      },
      {
        name: "Notes",
        fields: [
          () =>
            list("notes", "Notes, first to last", [{ key: "time", label: "Time, or none", optional: true, narrow: true }, { key: "text", label: "Note", rows: 3 }], {
              add: "Add a note",
            }),
        ],
        fits: (item) => item.text === undefined,
        from: ({ text: given, ...item }) => ({ notes: [{ text: given ?? "" }], ...item }),
      },
    ],
    options: [topK("Classes to list", "all"), cut],
  },
};

export const ORDER = Object.keys(FAMILIES);

/** What is filled in at first: the example, but with as many classes or answers as make a picture. */
export function exampleOf(model) {
  const { top_k: _, ...example } = model.example;
  return { ...example, ...familyOf(model).defaults };
}

/** A family that this page does not know yet is written and answered as JSON. */
export function familyOf(model) {
  return FAMILIES[model.family] ?? { title: model.family, forms: [], options: [] };
}
