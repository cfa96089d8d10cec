// How each head family's answers are drawn.

import { question, choices, cloze } from "./answers.js";
import { arcs } from "./arcs.js";
import { classes, relation } from "./classes.js";
import { entities } from "./entities.js";
import { dialogue, document, terms } from "./tables.js";
import { triples } from "./triples.js";

/** Family -> `draw({answer, item, model, width})`, nodes for the page, which has `width` pixels for them. Offsets count
 * UTF-16 units. */
export const VIEWS = {
  "text-classification": classes,
  "pair-classification": classes,
  "span-pair-classification": relation,
  "token-classification": entities,
  "span-classification": entities,
  "question-answering": question,
  "multiple-choice": choices,
  cloze,
  "dependency-parsing": arcs,
  "dialogue-state": dialogue,
  "triple-extraction": triples,
  "term-normalization": terms,
  "document-classification": document,
};
