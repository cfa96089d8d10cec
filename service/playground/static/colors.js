// A colour a label: the same in every answer of a model, in the text, in bars and in graphs.

const HUES = 12;

/** `color(label)` -> class name, by the label's place among those that the model names. */
export function palette(labels) {
  const places = new Map();
  for (const label of labels) if (!places.has(label)) places.set(label, places.size);
  return (label) => `hue-${(places.get(label) ?? hash(label)) % HUES}`;
}

/** The types that a model finds: tags of a scheme (B-, I-, ...) stand for one each. */
export function types(model) {
  if (model.family !== "token-classification") return model.labels;
  return model.labels.filter((label) => /^[BIMES]-/.test(label)).map((label) => label.slice(2));
}

/** How a label is called, where the model's author gave it a name. */
export function nameOf(model, label) {
  return Object.hasOwn(model.label_names, label) ? model.label_names[label] : label;
}

function hash(text) {
  let value = 7;
  for (const character of text) value = (value * 31 + character.codePointAt(0)) >>> 0;
  return value;
}
