// Kinds of input. Each is `{element, read(), fill(item)}`: what it says of an item, and an item into it. Inputs carry the
// path of their value in `data-path`, as errors name it.

import { h, newId, replace } from "./dom.js";

/** Spread over an item; a key that is undefined is not sent. */
const only = (key, value) => (value === undefined ? {} : { [key]: value });

/** A text. `optional`: left out while empty. */
export function text(key, label, { rows = 2, optional = false, hint } = {}) {
  const { element, input } = labelled(label, area(key, rows), hint);
  return {
    element,
    input,
    read: () => only(key, optional && input.value === "" ? undefined : input.value),
    fill: (item) => {
      input.value = item[key] ?? "";
      fit(input);
    },
  };
}

/** A number that may be left out. */
export function number(key, label, { min, max, step = 1, placeholder = "" }) {
  const bare = h("input", { type: "number", min, max, step, placeholder, inputmode: "decimal", "data-path": key });
  const { element, input } = labelled(label, bare);
  return {
    element,
    read: () => only(key, input.value === "" ? undefined : Number(input.value)),
    fill: (item) => (input.value = item[key] ?? ""),
  };
}

/** One of `options` ([value, name]); an empty value is left out. */
export function choice(key, label, options) {
  const { element, input } = labelled(label, select(options, key));
  return {
    element,
    read: () => only(key, input.value || undefined),
    fill: (item) => (input.value = item[key] ?? ""),
  };
}

export function check(key, label) {
  const input = h("input", { type: "checkbox", "data-path": key });
  return {
    element: h("label", { class: "check" }, input, label),
    read: () => only(key, input.checked || undefined),
    fill: (item) => (input.checked = item[key] === true),
  };
}

/**
 * A list whose entries have `columns`: `{key, label, options?, rows?, optional?, narrow?}`. `shape` says how it stands in the item:
 * under `key` as "objects" or as "strings", or as one list for each column ("columns").
 */
export function list(key, label, columns, { shape = "objects", add = "Add", fresh = () => ({}) } = {}) {
  const rows = h("ol", { class: "rows" });
  const more = h("button", { type: "button", class: "quiet", on: { click: () => append(fresh(read()), true) } }, add);
  const element = h("fieldset", { class: "field", "data-path": key }, h("legend", {}, label), rows, more);

  function append(entry, focus = false) {
    const cells = columns.map((column) => {
      const bare = column.options ? select(column.options) : area(null, column.rows ?? 1);
      bare.value = entry[column.key] ?? (column.options ? column.options[0][0] : "");
      bare.setAttribute("aria-label", column.label);
      if (!column.options) bare.setAttribute("placeholder", column.label);
      bare.classList.toggle("narrow", column.narrow === true);
      return bare;
    });
    const remove = h("button", { type: "button", class: "icon", "aria-label": "Remove", title: "Remove" }, "×");
    const row = h("li", {}, cells, remove);
    remove.addEventListener("click", () => {
      row.remove();
      renumber();
      element.dispatchEvent(new Event("input", { bubbles: true }));
      more.focus();
    });
    rows.append(row);
    renumber();
    for (const cell of cells) fit(cell);
    if (focus) {
      cells.at(-1).focus();
      element.dispatchEvent(new Event("input", { bubbles: true }));
    }
  }

  function renumber() {
    for (const [i, row] of [...rows.children].entries()) {
      for (const [j, column] of columns.entries()) {
        const path = { objects: `${key}.${i}.${column.key}`, strings: `${key}.${i}`, columns: `${column.key}.${i}` }[shape];
        row.children[j].setAttribute("data-path", path);
      }
    }
  }

  const values = (j) => [...rows.children].map((row) => row.children[j].value);

  function read() {
    if (shape === "strings") return { [key]: values(0) };
    if (shape === "columns") {
      const filled = columns.map((column, j) => [column, values(j)]);
      return Object.fromEntries(filled.filter(([c, v]) => !c.optional || v.some(Boolean)).map(([c, v]) => [c.key, v]));
    }
    const entries = [...rows.children].map((_, i) => columns.map((column, j) => [column, values(j)[i]]));
    const kept = (cells) => cells.filter(([column, value]) => !column.optional || value !== "");
    return { [key]: entries.map((cells) => Object.fromEntries(kept(cells).map(([column, value]) => [column.key, value]))) };
  }

  function fill(item) {
    replace(rows);
    if (shape === "columns") {
      const longest = Math.max(0, ...columns.map((column) => item[column.key]?.length ?? 0));
      for (let i = 0; i < longest; i += 1) append(Object.fromEntries(columns.map((c) => [c.key, item[c.key]?.[i]])));
    } else for (const entry of item[key] ?? []) append(shape === "strings" ? { [columns[0].key]: entry } : entry);
  }

  return { element, read, fill };
}

export function labelled(label, input, hint) {
  const id = newId("field");
  input.id = id;
  return { element: h("div", { class: "field" }, h("label", { for: id }, label), input, hint && h("p", { class: "hint" }, hint)), input };
}

export function area(path, rows) {
  return h("textarea", { rows, dir: "auto", spellcheck: "false", "data-path": path, on: { input: (event) => fit(event.target) } });
}

/** Grow with the text, up to a limit that the style sheet sets. */
export function fit(input) {
  if (input.tagName !== "TEXTAREA") return;
  input.style.height = "auto";
  if (input.scrollHeight > 0) input.style.height = `${input.scrollHeight + 2}px`;
}

function select(options, path = null) {
  return h("select", { "data-path": path }, options.map(([value, name]) => h("option", { value }, name)));
}
