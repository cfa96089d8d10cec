// The form of a model: one of its family's forms, or the item as JSON.

import { h, newId, replace } from "./dom.js";
import { familyOf } from "./families.js";
import { fit, labelled, area, number } from "./fields.js";

const patience = () => number("timeout_ms", "Give up after (ms)", { min: 1, max: 600000, placeholder: "server's" });

/** Not an item yet: `field` is where. */
export class Unreadable extends Error {
  constructor(message, field) {
    super(message);
    this.field = field;
  }
}

/** `{element, read(), fill(item), blame(error), forgive()}` for a model. */
export function form(model) {
  const family = familyOf(model);
  const options = [...family.options, patience].map((make) => make());
  const more = h("details", { class: "options" }, h("summary", {}, "Options"), h("div", { class: "option-grid" }, options.map((o) => o.element)));
  const ways = [...family.forms, json].map((way) => (way === json ? json() : made(way, options)));
  const body = h("div", { class: "fields", lang: model.language });
  const tabs = ways.map((way) => h("button", { type: "button", class: "tab", on: { click: () => turn(way) } }, way.name));
  const element = h("div", {}, ways.length > 1 && h("div", { class: "tabs", role: "group", "aria-label": "How to write it" }, tabs), body);
  let current = ways[0];

  function show(way) {
    current = way;
    for (const [i, tab] of tabs.entries()) tab.setAttribute("aria-pressed", String(ways[i] === way));
    replace(body, way.fields.map((field) => field.element), !way.whole && more);
    for (const input of body.querySelectorAll("textarea")) fit(input);
  }

  function put(way, item) {
    show(way);
    for (const field of way.fields) field.fill(item);
    if (!way.whole) {
      for (const option of options) option.fill(item);
      more.open ||= options.some((option) => Object.keys(option.read()).some((key) => !(key in (family.defaults ?? {}))));
    }
  }

  function turn(way) {
    if (way === current) return;
    let item;
    try {
      item = read();
    } catch (error) {
      blame(error); // what is no JSON cannot be brought to a form
      return;
    }
    put(way, way.from ? way.from(item) : item);
    forgive();
    element.dispatchEvent(new Event("input", { bubbles: true }));
  }

  function read() {
    if (current.whole) return current.fields[0].read();
    return Object.assign({}, ...[...current.fields, ...options].map((field) => field.read()), { offset_unit: "utf16" });
  }

  function fill(item) {
    put(ways.find((way) => way.fits(item)), item);
  }

  /** Mark the input that an error's path leads to, or the nearest around it. */
  function blame(error) {
    forgive();
    const inputs = [...body.querySelectorAll("[data-path]")];
    for (let path = error.field ?? ""; path !== ""; path = path.slice(0, Math.max(0, path.lastIndexOf(".")))) {
      const found = inputs.find((input) => input.dataset.path === path);
      if (!found) continue;
      const id = newId("problem");
      found.setAttribute("aria-invalid", "true");
      found.setAttribute("aria-describedby", id);
      found.closest("details")?.setAttribute("open", "");
      found.closest(".field, .span-row").append(h("p", { class: "problem", id }, error.message));
      (found.matches("input, textarea, select") ? found : found.querySelector("input, textarea, select, button"))?.focus();
      return;
    }
  }

  function forgive() {
    for (const note of body.querySelectorAll(".problem")) note.remove();
    for (const input of body.querySelectorAll("[aria-invalid]")) {
      input.removeAttribute("aria-invalid");
      input.removeAttribute("aria-describedby");
    }
  }

  element.addEventListener("input", forgive);
  return { element, read, fill, blame, forgive };
}

/** A form of a family, as inputs. It shows an item if it has a place for every field of it. */
function made({ name, fields, fits = () => true, from = (item) => item }, options) {
  const inputs = fields.map((make) => make());
  const known = (item) => {
    for (const field of inputs) field.fill(item);
    for (const option of options) option.fill(item);
    const shown = Object.assign({}, ...[...inputs, ...options].map((field) => field.read()));
    return Object.keys(item).every((key) => key === "offset_unit" || key in shown);
  };
  return { name, fields: inputs, from, fits: (item) => fits(item) && known(item) };
}

/** The whole item as JSON, which is kept as it is written. */
function json() {
  const { element, input } = labelled("Item", area("", 8));
  input.classList.add("code");
  const read = () => {
    let item;
    try {
      item = JSON.parse(input.value);
    } catch (error) {
      throw new Unreadable(`This is not JSON yet: ${error.message}`, "json");
    }
    if (item === null || typeof item !== "object" || Array.isArray(item)) throw new Unreadable("An item is an object: { … }", "json");
    return item;
  };
  const fill = (item) => {
    input.value = JSON.stringify(item, null, 2);
    fit(input);
  };
  input.setAttribute("data-path", "json");
  return { name: "JSON", fields: [{ element, read, fill }], whole: true, fits: () => true };
}
