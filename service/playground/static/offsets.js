// Offsets in JavaScript count UTF-16 units: the page asks with offset_unit "utf16", and brings other items to it.

const ROLES = ["subject", "object"];
const encoder = new TextEncoder();

/** Where in `text` an offset in code points or in bytes of UTF-8 lies, in UTF-16 units. */
export function toUtf16(text, offset, unit) {
  if (unit === "utf16") return offset;
  let units = 0;
  let counted = 0;
  for (const character of text) {
    if (counted >= offset) break;
    counted += unit === "byte" ? encoder.encode(character).length : 1;
    units += character.length;
  }
  // Past the end it stays past the end, so that the server says what is wrong.
  return units + Math.max(0, offset - counted);
}

/** The same item with offsets in UTF-16 units. */
export function inUtf16(item) {
  const unit = item.offset_unit ?? "codepoint";
  const moved = { ...item, offset_unit: "utf16" };
  for (const role of ROLES.filter((name) => item[name] && typeof item.text === "string")) {
    const { start, end, ...rest } = item[role];
    moved[role] = { start: toUtf16(item.text, start, unit), end: toUtf16(item.text, end, unit), ...rest };
  }
  return moved;
}

/** Where a span lies after `before` became `after`; null if nothing is left of it. */
export function followed(span, before, after) {
  if (!span || before === after) return span;
  const shorter = Math.min(before.length, after.length);
  let head = 0;
  while (head < shorter && before[head] === after[head]) head += 1;
  let tail = 0;
  while (tail < shorter - head && before[before.length - 1 - tail] === after[after.length - 1 - tail]) tail += 1;
  const grown = after.length - before.length;
  const gone = before.length - tail; // `before` from head to gone was replaced
  const start = span.start >= gone ? span.start + grown : Math.min(span.start, head);
  const end = span.end >= gone ? span.end + grown : Math.min(span.end, head);
  return start < end ? { ...span, start, end } : null;
}
