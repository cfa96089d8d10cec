// The page: pick a model, fill in its item, ask, look at the answer.

import { ask, listModels, Refusal } from "./api.js";
import { curl } from "./curl.js";
import { copyButton, h, replace } from "./dom.js";
import { exampleOf, familyOf } from "./families.js";
import { form, Unreadable } from "./form.js";
import { fromFragment, toFragment } from "./link.js";
import { inUtf16 } from "./offsets.js";
import { languageName, picker } from "./picker.js";
import { showAnswer, showNothing, showProblem, showWaiting } from "./result.js";

const POLL = 2000; // ms between looks at models that are still loading

const part = (id) => document.getElementById(id);
const panel = part("result");
const models = picker({ aside: part("models"), search: part("search"), list: part("list"), toggle: part("toggle") });
const call = { command: part("curl"), answer: part("json"), box: part("answer-json") };

let served = [];
let model = null;
let fields = null;
let running = null;

async function start() {
  try {
    served = await listModels();
  } catch (error) {
    showProblem(panel, error, start);
    return;
  }
  models.show(served);
  route();
  watch();
  performance.mark("usable");
}

/** Show what the fragment names; a link that carries an item is answered at once. */
function route() {
  if (served.length === 0) {
    replace(part("about"), h("h1", {}, "No model to ask"), h("p", {}, "This server holds none, or none that your key may ask."));
    return;
  }
  const { name, item } = fromFragment(location.hash);
  model = served.find((one) => one.name === name) ?? served[0];
  models.select(model.name);
  describe();
  fields = form(model);
  replace(part("form"), fields.element);
  showNothing(panel);
  panel.removeAttribute("aria-busy");
  running?.abort();
  fields.fill(inUtf16(item ?? exampleOf(model)));
  call.box.hidden = true;
  echo();
  part("run").disabled = false;
  document.body.classList.add("loaded");
  if (item) run();
}

function describe() {
  document.title = `${model.name} · clueserve`;
  const facts = [model.suite, languageName(model.language), model.precision, `up to ${model.max_length} tokens`];
  const stages = Object.keys(model.stages);
  if (stages.length > 0) facts.push(`in stages: ${stages.join(", ")}`);
  const scores = model.scores.map(({ metric, value, n, data }) => h("li", {}, h("b", {}, `${metric} ${value}`), ` on ${data}, ${n.toLocaleString("en")} items`));
  replace(
    part("about"),
    h("p", { class: "eyebrow" }, familyOf(model).title),
    h("h1", {}, model.name),
    h("ul", { class: "facts" }, facts.map((fact) => h("li", {}, fact))),
    scores.length > 0 && h("ul", { class: "scores" }, scores),
  );
}

async function run() {
  const asked = model;
  running?.abort();
  running = new AbortController();
  const { signal } = running;
  try {
    const item = inUtf16(fields.read());
    fields.forgive();
    showWaiting(panel);
    history.replaceState(null, "", toFragment(asked.name, item));
    const { answer, timing } = await ask(asked, item, signal);
    if (signal.aborted) return;
    showAnswer(panel, { answer, item, model: asked, timing });
    part("status").textContent = `Answered in ${Math.round(timing.total)} milliseconds`;
    panel.scrollIntoView({ block: "nearest" });
    call.answer.textContent = JSON.stringify(answer, null, 2);
    call.box.hidden = false;
  } catch (error) {
    if (error.name === "AbortError") return;
    if (!(error instanceof Refusal || error instanceof Unreadable)) throw error;
    call.box.hidden = true;
    showProblem(panel, error, run);
    fields.blame(error);
  }
  panel.removeAttribute("aria-busy");
}

/** The address of what is written now, or of what was asked last while it is not to be read. */
function link() {
  try {
    return new URL(toFragment(model.name, inUtf16(fields.read())), location.href).href;
  } catch (error) {
    if (!(error instanceof Unreadable)) throw error;
    return location.href;
  }
}

/** Keep the command beside what is written. */
function echo() {
  try {
    call.command.textContent = curl(location.origin, model.endpoint, inUtf16(fields.read()));
  } catch (error) {
    if (!(error instanceof Unreadable)) throw error;
    call.command.textContent = error.message;
  }
}

/** Look again until every model is ready. */
function watch() {
  if (served.every((one) => one.ready)) return;
  setTimeout(async () => {
    try {
      served = await listModels();
      models.show(served);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error; // a server that is away for a moment
    }
    watch();
  }, POLL);
}

part("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  run();
});
part("ask").addEventListener("input", echo);
part("ask").addEventListener("click", echo);
part("example").addEventListener("click", () => {
  fields.fill(inUtf16(exampleOf(model)));
  fields.forgive();
  echo();
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || !model) return;
  event.preventDefault();
  run();
});
window.addEventListener("hashchange", route);
part("actions").append(copyButton("Copy link", link));
part("curl-head").append(copyButton("Copy", () => call.command.textContent));
part("json-head").append(copyButton("Copy", () => call.answer.textContent));

start();
