// A link to a model and an item: #klue-ner?text=…; what is no string is JSON.

const TEXTS = new Set(["text", "text_pair", "question", "context", "on_overflow"]);

/** `{name, item}` of a fragment; `item` is null if it only names a model or cannot be read. */
export function fromFragment(fragment) {
  const [name, query = ""] = split(fragment.replace(/^#/, ""));
  const entries = [...new URLSearchParams(query)];
  try {
    const item = Object.fromEntries(entries.map(([key, value]) => [key, TEXTS.has(key) ? value : JSON.parse(value)]));
    return { name, item: entries.length > 0 ? item : null };
  } catch {
    return { name, item: null };
  }
}

export function toFragment(name, item = {}) {
  const entries = Object.entries(item).map(([key, value]) => [key, typeof value === "string" && TEXTS.has(key) ? value : JSON.stringify(value)]);
  return `#${encodeURIComponent(name)}${entries.length > 0 ? "?" : ""}${new URLSearchParams(entries)}`;
}

function split(fragment) {
  const at = fragment.indexOf("?");
  const name = at < 0 ? fragment : fragment.slice(0, at);
  try {
    return [decodeURIComponent(name), at < 0 ? "" : fragment.slice(at + 1)];
  } catch {
    return [name];
  }
}
