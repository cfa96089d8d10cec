// A text and two spans of it that are chosen by selecting text.

import { h, replace } from "./dom.js";
import { text } from "./fields.js";
import { marked } from "./marks.js";
import { followed } from "./offsets.js";

const ROLES = [
  ["subject", "Subject", "hue-0"],
  ["object", "Object", "hue-2"],
];

export function spanPair() {
  const field = text("text", "Text", { hint: "Select words above with mouse or keyboard, then say what they are." });
  const { input } = field;
  const spans = { subject: null, object: null };
  let before = "";
  const preview = h("p", { class: "reading preview", dir: "auto" });
  const rows = ROLES.map(([role, name, hue]) => {
    const shown = h("span", { class: "chosen" });
    const type = h("input", { class: "type", "aria-label": `${name} type`, placeholder: "type", "data-path": `${role}.type` });
    const set = h("button", { type: "button", class: `pick ${hue}`, on: { click: () => choose(role) } }, `Set ${role}`);
    // A button takes the focus, and with it the selection that a reader sees; the text keeps both while one presses it.
    set.addEventListener("mousedown", (event) => event.preventDefault());
    return { role, shown, type, element: h("div", { class: "span-row", "data-path": role }, set, shown, type) };
  });
  const element = h("div", {}, field.element, h("div", { class: "spans" }, rows.map((row) => row.element)), preview);

  function choose(role) {
    const { selectionStart: start, selectionEnd: end, value } = input;
    if (start === end) {
      rows.find((row) => row.role === role).shown.textContent = "select some text first";
      input.focus();
      return;
    }
    const chosen = value.slice(start, end);
    const left = chosen.length - chosen.trimStart().length;
    spans[role] = { start: start + left, end: start + left + chosen.trim().length };
    show();
    element.dispatchEvent(new Event("input", { bubbles: true }));
  }

  function show() {
    for (const { role, shown } of rows) {
      const span = spans[role];
      replace(shown, span ? h("bdi", {}, input.value.slice(span.start, span.end)) : "not chosen");
      shown.classList.toggle("empty", !span);
    }
    const known = ROLES.filter(([role]) => spans[role]);
    replace(preview, marked(input.value, known.map(([role, name, hue]) => ({ ...spans[role], class: `entity ${hue}`, label: name }))));
  }

  input.addEventListener("input", () => {
    for (const [role] of ROLES) spans[role] = followed(spans[role], before, input.value);
    before = input.value;
    show();
  });

  return {
    element,
    read: () => {
      const item = { text: input.value };
      for (const { role, type } of rows) {
        if (spans[role]) item[role] = { start: spans[role].start, end: spans[role].end, ...(type.value && { type: type.value }) };
      }
      return item;
    },
    fill: (item) => {
      field.fill(item);
      before = input.value;
      for (const { role, type } of rows) {
        const span = item[role];
        spans[role] = span ? { start: span.start, end: span.end } : null;
        type.value = span?.type ?? "";
        type.hidden = span?.type === undefined;
      }
      show();
    },
  };
}
