// What several drawings are made of.

import { h } from "../dom.js";

export const percent = (score) => `${(100 * score).toFixed(1)} %`;
export const plain = (score) => score.toFixed(3);

/**
 * Bars from 0 to 1: rows of `{name, score, class, note, chosen}`; `note` stands small behind the name. Past `limit` rows
 * the others come on request.
 */
export function bars(rows, { format = percent, limit = 8 } = {}) {
  const list = h("ul", { class: "bars" }, rows.slice(0, limit).map(bar));
  if (rows.length <= limit) return list;
  const more = h("button", { type: "button", class: "quiet", on: { click } }, `Show all ${rows.length}`);
  function click() {
    const next = rows.slice(limit).map(bar);
    list.append(...next);
    more.remove();
    next[0].setAttribute("tabindex", "-1");
    next[0].focus();
  }
  return h("div", {}, list, more);

  function bar({ name, score, class: hue = "", note, chosen }) {
    const width = `${Math.max(0, Math.min(1, score)) * 100}%`;
    return h(
      "li",
      { class: `bar ${hue}${chosen ? " chosen" : ""}` },
      h("span", { class: "name" }, h("bdi", {}, name), note && h("small", {}, note)),
      h("span", { class: "track", "aria-hidden": "true" }, h("span", { class: "fill", vars: { "--w": width } })),
      h("span", { class: "number" }, format(score)),
    );
  }
}

/** A table. A cell is text or a node; columns are `{name, number?}`. */
export function table(columns, rows) {
  const align = (column) => (column.number ? "number" : false);
  return h(
    "div",
    { class: "table", tabindex: "0", role: "region", "aria-label": columns.map((column) => column.name).join(", ") },
    h(
      "table",
      {},
      h("thead", {}, h("tr", {}, columns.map((c) => h("th", { scope: "col", class: align(c) }, c.name)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell, i) => h("td", { class: align(columns[i]) }, cell))))),
    ),
  );
}

export function folded(name, ...content) {
  return h("details", { class: "folded" }, h("summary", {}, name), content);
}

export function reading(language, content, extra = "") {
  return h("p", { class: `reading ${extra}`, dir: "auto", lang: language }, content);
}

export function nothing(message) {
  return h("p", { class: "nothing" }, message);
}

export function chip(name, hue) {
  return h("span", { class: `chip ${hue}` }, h("bdi", {}, name));
}

export function counted(n, one, many = `${one}s`) {
  return `${n} ${n === 1 ? one : many}`;
}
