"""Text Embeddings Inference: `/predict` and `/rerank`, with `?model=<name>` or as `/tei/<name>/...`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from service import __version__
from service.access import require
from service.batching.runner import Result
from service.edge.body import parse
from service.edge.endpoints import timing_headers
from service.edge.http import Asked, Endpoint, Handler, Style, json_response
from service.errors import InvalidItem, NotFound, ServiceError
from service.protocols.common import Ask, Model, Place, Reader, Writer, models, spelled, together, unsupported
from service.protocols.described import STATUSES, answered, named
from service.server import Server
from service.tasks import pair_classification
from service.tasks.classification import Classification, ClassificationTask
from service.types import Answer, rounded


class Options(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    truncate: bool | None = Field(None, description="false: refuse a text past the model's limit")
    truncation_direction: Literal["Left", "Right", "left", "right"] | None = None
    raw_scores: bool | None = Field(None, description="true: logits instead of probabilities")


class Predict(Options):
    inputs: Any = Field(description='"text", ["text"], ["text", "pair"], or a list of lists of one or two texts')


class Rerank(Options):
    query: str
    texts: list[str] = Field(fail_fast=True)
    return_text: bool | None = None


def predict(model: Model) -> Reader:
    async def read(asked: Asked) -> tuple[Sequence[Ask], Writer]:
        start = perf_counter()
        if not issubclass(model.task.Output, Classification):
            raise unsupported("model", f"{model.name} is a {model.manifest.family} model; /predict answers classes")
        request = await parse(Predict, asked.body)
        sequences, batch = _sequences(model, request.inputs)
        asks = []
        for path, texts in sequences:
            places = [path] if len(texts) == 1 else [f"{path}.0", f"{path}.1"]
            names = ("text", "text_pair")[: len(texts)]
            place = Place(path, dict(zip(names, places, strict=True)))
            asks.append(_ask(model, dict(zip(names, texts, strict=True)), place, request))

        def write(results: Sequence[Result]) -> Response:
            written = [_classes(result.answer) for result in results]
            return json_response(written if batch else written[0], headers=_headers(results, start))

        return asks, write

    return read


def rerank(model: Model) -> Reader:
    async def read(asked: Asked) -> tuple[Sequence[Ask], Writer]:
        start = perf_counter()
        relevance = _relevance(model)
        request = await parse(Rerank, asked.body)
        if not request.texts:
            raise InvalidItem("there are no texts", field="texts", code="empty_text")
        model.limit(len(request.texts), "texts")
        asks = []
        for i, text in enumerate(request.texts):
            place = Place("", {"text": "query", "text_pair": f"texts.{i}"})
            asks.append(_ask(model, {"text": request.query, "text_pair": text}, place, request))
            asks[-1].item.split_by(request.query)

        def write(results: Sequence[Result]) -> Response:
            scores = [relevance(result.answer) for result in results]
            ranked = [
                {"index": i, "score": scores[i]} | ({"text": request.texts[i]} if request.return_text else {})
                for i in sorted(range(len(scores)), key=lambda i: -scores[i])
            ]
            return json_response(ranked, headers=_headers(results, start))

        return asks, write

    return read


def _sequences(model: Model, inputs: Any) -> tuple[list[tuple[str, list[str]]], bool]:
    """Texts and pairs, each with its path, and whether they came as a batch. A flat list is one text or one pair."""
    if inputs == []:
        raise InvalidItem("there are no texts", field="inputs", code="empty_text")
    batch = isinstance(inputs, list) and all(isinstance(one, list) for one in inputs)
    if batch:
        model.limit(len(inputs), "inputs")
    alone = [inputs] if isinstance(inputs, str) else inputs
    sequences = [(f"inputs.{i}", one) for i, one in enumerate(inputs)] if batch else [("inputs", alone)]
    for path, one in sequences:
        if not isinstance(one, list) or len(one) not in (1, 2) or not all(isinstance(text, str) for text in one):
            raise InvalidItem("give a text, a pair of texts, or a list of lists of one or two texts", field=path)
    return sequences, batch


def _ask(model: Model, fields: Mapping[str, Any], place: Place, options: Options) -> Ask:
    side = options.truncation_direction
    if side and (side.lower() == "left") != (model.manifest.truncation == "left"):
        raise unsupported("truncation_direction", f"{model.name} cuts texts on the other side")
    if options.truncate is not None:
        fields = {**fields, "on_overflow": "truncate" if options.truncate else "error"}
    ask = model.ask(fields, place)
    if options.raw_scores and model.params.output != "regression":  # a number is raw in any case
        if not issubclass(model.task, ClassificationTask):
            raise unsupported("raw_scores", f"{model.name} puts windows of a text together by their probabilities")
        ask.item.with_logits()
    return ask


def _classes(answer: Answer) -> list[dict[str, Any]]:
    if not answer["scores"]:
        return [{"score": answer["value"], "label": answer["label"] or "value"}]
    raw = answer.get("logits", {})
    return [{"score": rounded(raw.get(s["label"], s["score"])), "label": s["label"]} for s in answer["scores"]]


def _relevance(model: Model) -> Callable[[Answer], float]:
    """The score by which a pair model ranks: its number, or that of the class that its bundle says stands for a yes."""
    params, labels = model.params, model.manifest.labels
    if not isinstance(params, pair_classification.Params):
        raise unsupported("model", f"{model.name} is a {model.manifest.family} model; /rerank needs one of pairs")
    label = params.positive or params.entailment or (labels[0] if len(labels) == 1 else None)
    if label is None and params.output != "regression":
        raise unsupported("model", f"{model.name} does not say which of its classes ranks first")
    return lambda answer: next(float(c["score"]) for c in _classes(answer) if label in (None, c["label"]))


def _headers(results: Sequence[Result], start: float) -> dict[str, str]:
    """The native headers, and TEI's in whole milliseconds."""
    timing = together(results)
    spent = {"Total": perf_counter() - start, "Tokenization": timing.tokenize}
    spent |= {"Queue": timing.queue, "Inference": timing.inference}
    return timing_headers(timing) | {f"X-{stage}-Time": str(round(s * 1000)) for stage, s in spent.items()}


def info(model: Model) -> dict[str, Any]:
    labels = dict(enumerate(model.manifest.labels))
    classifier = {"id2label": {str(i): x for i, x in labels.items()}, "label2id": {x: i for i, x in labels.items()}}
    return {
        "model_id": model.name,
        "model_sha": model.versions[0],
        "model_dtype": model.bundle.precision,
        "model_type": {"classifier": classifier} if issubclass(model.task.Output, Classification) else {},
        "max_input_length": model.manifest.max_length,
        "max_client_batch_size": model.server.settings.max_batch_items,
        "auto_truncate": True,
        "version": __version__,
    }


def routes(server: Server) -> dict[str, dict[str, Endpoint]]:
    served = {model.name: model for model in models(server)}
    actions: dict[str, tuple[str, Callable[[Model], Handler]]] = {
        "predict": ("POST", lambda model: model.handler(predict(model))),
        "rerank": ("POST", lambda model: model.handler(rerank(model))),
        "info": ("GET", _info),
        "health": ("GET", _health),
    }
    found: dict[str, dict[str, Endpoint]] = {}
    for action, (method, make) in actions.items():
        handlers = {name: make(model) for name, model in served.items()}
        found |= {f"/tei/{name}/{action}": {method: Endpoint(handler)} for name, handler in handlers.items()}
        found[f"/{action}"] = {method: Endpoint(_chosen(server, handlers))}

    of_one = found["/health"]["GET"].answer

    async def of_all(asked: Asked) -> Response:
        if asked.query("model") is not None:
            return await of_one(asked)
        server.ready()
        return Response()

    return found | {"/health": {"GET": Endpoint(of_all)}}


def _info(model: Model) -> Handler:
    async def handle(_: Asked) -> Response:
        return json_response(info(model))

    return handle


def _health(model: Model) -> Handler:
    async def handle(_: Asked) -> Response:
        model.ready()
        return Response()

    return handle


def _chosen(server: Server, handlers: Mapping[str, Handler]) -> Handler:
    """Answers for the model that the query names; it may be left out where there is only one."""

    async def handle(asked: Asked) -> Response:
        name = asked.query("model") or (next(iter(handlers)) if len(handlers) == 1 else None)
        try:
            if name is None:
                raise InvalidItem("say which, as in ?model=<name>", field="model", code="missing_field")
            if name not in handlers:
                raise NotFound("there is no such model; GET /v1/models lists the models")
        except ServiceError as error:
            server.refused(error.reason)
            raise
        require(name, "model")
        return await handlers[name](asked)

    return handle


# What TEI calls errors of each status, spelled as its server does and not as its own document.
KINDS = {429: "Overloaded", 500: "Backend", 503: "Unhealthy", 504: "Backend"}


def style(error: ServiceError) -> Response:
    own = {"empty_text": 400, "batch_too_large": 413, "internal": 424}.get(error.reason, error.status)
    kind = "Empty" if error.reason == "empty_text" else KINDS.get(error.status, "Validation")
    return json_response({"error": spelled(error), "error_type": kind}, own, error.headers())


STYLES: dict[str, Style] = dict.fromkeys(("tei", "predict", "rerank", "info", "health"), style)


def paths(server: Server) -> dict[str, Any]:
    statuses = STATUSES | {
        "400": "a text is empty, or the body is not JSON",
        "413": "too many items, or the body is too large",
        "424": "a fault of the model",
    }
    found: dict[str, Any] = {}
    for base, of in (("/", named(server, "query")), ("/tei/{model}/", named(server))):
        asked = answered("classes of texts and pairs", of, Predict, {"inputs": ["...", "..."]}, statuses)
        ranked = answered("texts by their score with a query", of, Rerank, {"query": "...", "texts": ["..."]}, statuses)
        found |= {f"{base}predict": {"post": asked}, f"{base}rerank": {"post": ranked}}
        health = answered("whether requests are answered", of, empty=True)
        found |= {f"{base}info": {"get": answered("facts of a model", of)}, f"{base}health": {"get": health}}
    return found
