// The service as the page asks it.

/** An answer that is none. `status` is 0 if the server was not reached; `field` is the path to the culprit. */
export class Refusal extends Error {
  constructor(status, { code, message, field = null }, retryAfter = null) {
    super(message);
    Object.assign(this, { status, code, field, retryAfter });
  }
}

/** Entries of GET /v1/models. */
export async function listModels() {
  const { body } = await call("/v1/models", {});
  return body.models;
}

/** An item's answer, and where its time went in milliseconds. */
export async function ask(model, item, signal) {
  const sent = performance.now();
  const request = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(item), signal };
  const { body, headers } = await call(model.endpoint, request);
  const total = performance.now() - sent;
  const [queue, tokenize, inference, rows] = ["X-Queue-Ms", "X-Tokenize-Ms", "X-Inference-Ms", "X-Batch-Rows"].map((name) =>
    Number(headers.get(name)),
  );
  return { answer: body, timing: { queue, tokenize, inference, rows, total } };
}

async function call(path, request) {
  let response;
  let text;
  try {
    response = await fetch(path, { ...request, cache: "no-store" });
    text = await response.text();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal(0, { code: "unreachable", message: "The server could not be reached." });
  }
  const body = parsed(text);
  if (response.ok && body !== undefined) return { body, headers: response.headers };
  const unsaid = { code: `http_${response.status}`, message: `The server answered ${response.status} and nothing else.` };
  throw new Refusal(response.status, body?.error ?? unsaid, Number(response.headers.get("Retry-After")) || null);
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
