// What came back: the drawing, how much was read, where the time went; or what went wrong, kindly.

import { h, replace } from "./dom.js";
import { counted } from "./views/parts.js";
import { VIEWS } from "./views/index.js";

const KIND = {
  unreachable: ["The server could not be reached", "Is it still running? Your text is kept; try again when it is back."],
  overloaded: ["The server is busy", "It would have to let you wait too long, so it says so at once."],
  not_ready: ["The model is not ready yet", "It is loading, or the server is shutting down."],
  deadline_exceeded: ["Time ran out", "The answer was not there before the deadline."],
  unauthorized: ["Please sign in", "Reload the page to give your key."],
  forbidden: ["Your key may not ask this", null],
  rate_limited: ["That was too often for your key", null],
  not_found: ["This model is not served any more", "Reload the page to see which ones are."],
  body_too_large: ["That is too much at once", "Send a shorter text."],
};

/** Draw an answer into the panel. */
export function showAnswer(panel, { answer, item, model, timing }) {
  const draw = VIEWS[model.family];
  const width = panel.clientWidth - 2 * parseFloat(getComputedStyle(panel).paddingLeft);
  const view = draw ? draw({ answer, item, model, width }) : h("p", { class: "nothing" }, "This page has no drawing for this family; the answer is below as JSON.");
  replace(panel, h("h2", {}, "Answer"), h("div", { class: "view" }, [view].flat().filter(Boolean)), read(answer, timing), times(timing));
}

export function showWaiting(panel) {
  panel.setAttribute("aria-busy", "true");
}

export function showNothing(panel) {
  replace(panel, h("h2", {}, "Answer"), h("p", { class: "nothing" }, "Run the example, or write your own."));
}

/** Say what went wrong and, where waiting helps, when to try again. */
export function showProblem(panel, error, again) {
  const [title, advice] = KIND[error.code] ?? [error.status >= 500 ? "The server failed on this request" : "Please check what you wrote", null];
  const button = h("button", { type: "button", class: "secondary", on: { click: again } }, "Try again");
  const temporary = error.status === 0 || error.status === 429 || error.status >= 500;
  replace(
    panel,
    h("h2", {}, "Answer"),
    h(
      "div",
      { class: "trouble", role: "alert" },
      h("h3", {}, title),
      h("p", {}, error.message, error.status && error.field && [", in ", h("code", {}, error.field)]),
      advice && h("p", { class: "hint" }, advice),
      temporary && button,
      h("p", { class: "hint" }, [error.status || null, error.code].filter(Boolean).join(" · ")),
    ),
  );
  if (temporary && error.retryAfter) countDown(button, error.retryAfter);
}

function countDown(button, seconds) {
  button.disabled = seconds > 0;
  button.textContent = seconds > 0 ? `Try again in ${seconds} s` : "Try again";
  if (seconds > 0 && button.isConnected) setTimeout(() => countDown(button, seconds - 1), 1000);
}

function read({ tokens, truncated }, { rows }) {
  return h(
    "p",
    { class: "read" },
    `${counted(tokens, "token")} read, ${counted(rows, "row")} in the batch`,
    truncated && h("strong", { class: "cut" }, "part of the input was past the limit and was not read"),
  );
}

function times({ queue, tokenize, inference, total }) {
  const rest = Math.max(0, total - queue - tokenize - inference);
  const parts = [
    ["queue", "Queue", queue],
    ["tokenize", "Tokenize", tokenize],
    ["inference", "Inference", inference],
    ["rest", "Rest", rest],
  ];
  const strip = parts.map(([key, , ms]) => h("span", { class: key, vars: { "--grow": ms / total } }));
  const said = parts.map(([key, name, ms]) => h("div", {}, h("dt", { class: key }, name), h("dd", {}, milliseconds(ms))));
  return h(
    "section",
    { class: "times", "aria-label": "Where the time went" },
    h("div", { class: "strip", "aria-hidden": "true" }, strip),
    h(
      "dl",
      {},
      h("div", { class: "total" }, h("dt", {}, "Round trip"), h("dd", {}, milliseconds(total))),
      said,
    ),
  );
}

function milliseconds(ms) {
  return `${ms < 10 ? ms.toFixed(2) : ms.toFixed(1)} ms`;
}
