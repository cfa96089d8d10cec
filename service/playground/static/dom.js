// Elements. Text goes in as text nodes and attributes, never as markup.

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element. `props`: attributes; `class`, `vars` (custom properties), `on` (listeners); false leaves one out. */
export function h(tag, props = {}, ...children) {
  return filled(document.createElement(tag), props, children);
}

export function svg(tag, props = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), props, children);
}

function filled(element, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === false || value === null || value === undefined) continue;
    if (name === "on") for (const [event, f] of Object.entries(value)) element.addEventListener(event, f);
    else if (name === "vars") for (const [key, v] of Object.entries(value)) element.style.setProperty(key, v);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function replace(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child));
}

let count = 0;

/** An id for a label or a description to point to. */
export function newId(name) {
  count += 1;
  return `${name}-${count}`;
}

/** A button that copies what `text()` gives and says so. */
export function copyButton(name, text) {
  const button = h("button", { type: "button", class: "quiet", on: { click } }, name);
  let timer = 0;
  async function click() {
    button.textContent = (await copied(text())) ? "Copied" : "Press Ctrl+C";
    clearTimeout(timer);
    timer = setTimeout(() => (button.textContent = name), 1600);
  }
  return button;
}

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // No clipboard on plain HTTP: the old way, through a selection.
    const area = h("textarea", { class: "off-screen", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}
