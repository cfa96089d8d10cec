// The list of models: by task, then by language; typing narrows it.

import { h, replace } from "./dom.js";
import { familyOf, ORDER } from "./families.js";
import { toFragment } from "./link.js";

const languages = new Intl.DisplayNames("en", { type: "language", fallback: "code" });

export function languageName(code) {
  try {
    return languages.of(code);
  } catch {
    return code; // not a code that BCP 47 knows
  }
}

/** Fills `list`; `search` is the input above it. `{show(models), select(name), close()}`. */
export function picker({ aside, search, list, toggle }) {
  let models = [];
  let selected = null;

  const place = (model) => (ORDER.indexOf(model.family) + ORDER.length + 1) % (ORDER.length + 1); // unknown ones last
  const haystack = (m) => [m.name, m.suite, familyOf(m).title, m.family, m.language, languageName(m.language)].join(" ").toLowerCase();

  function show(given) {
    models = [...given].sort((a, b) => place(a) - place(b) || a.language.localeCompare(b.language) || a.name.localeCompare(b.name));
    render();
  }

  function render() {
    const wanted = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = models.filter((model) => wanted.every((word) => haystack(model).includes(word)));
    const groups = grouped(found);
    replace(
      list,
      [...groups].map(([title, members]) => h("section", {}, h("h3", {}, title), h("ul", {}, members.map(entry)))),
      found.length === 0 && h("p", { class: "nothing" }, `No model matches “${search.value}”.`),
    );
  }

  function entry(model) {
    const state = model.ready ? null : h("span", { class: "waiting" }, "loading");
    const current = model.name === selected && "page";
    return h(
      "li",
      {},
      h(
        "a",
        { href: toFragment(model.name), "aria-current": current, on: { click: close } },
        h("span", { class: "model" }, model.name),
        state,
        h("span", { class: "language", title: languageName(model.language) }, model.language),
      ),
    );
  }

  function select(name) {
    selected = name;
    render();
    list.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
  }

  function close() {
    aside.classList.remove("open");
    toggle.setAttribute("aria-expanded", "false");
  }

  toggle.addEventListener("click", () => {
    const open = aside.classList.toggle("open");
    toggle.setAttribute("aria-expanded", String(open));
    if (open) search.focus();
  });
  search.addEventListener("input", render);
  aside.addEventListener("keydown", (event) => {
    const links = [...list.querySelectorAll("a")];
    const at = links.indexOf(document.activeElement);
    if (event.key === "ArrowDown") links[at + 1]?.focus();
    else if (event.key === "ArrowUp") (links[at - 1] ?? search).focus();
    else if (event.key === "Enter" && event.target === search) links[0]?.click();
    else if (event.key === "Escape") {
      close();
      toggle.focus();
    } else return;
    event.preventDefault();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.target.closest("input, textarea, select")) return;
    event.preventDefault();
    aside.classList.add("open");
    toggle.setAttribute("aria-expanded", "true");
    search.select();
  });
  return { show, select, close };
}

function grouped(models) {
  const groups = new Map();
  for (const model of models) {
    const { title } = familyOf(model);
    groups.set(title, [...(groups.get(title) ?? []), model]);
  }
  return groups;
}
