"""What transformers' pipelines ask and answer, over native items and answers. A parameter that a model cannot honour is
refused by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from service.errors import InvalidItem
from service.protocols.common import Ask, Model, Place, parameters, unsupported
from service.tasks.classification import ClassificationTask
from service.tasks.question_answering import Numbers, QuestionItem
from service.tasks.token_classification import EntityItem
from service.types import Answer, Array, rounded, sigmoid, softmax

UNTAGGED = "O"
"""What the pipeline of token classification leaves out unless it is told otherwise."""

FUNCTIONS: dict[str, Callable[[Array], Array]] = {"softmax": softmax, "sigmoid": sigmoid, "none": lambda x: x}


class Form(NamedTuple):
    """`asks(item, path)`: the native items of one of theirs; `written`: their answer, of the native ones. `nested`: an
    item alone is answered like a list of one. `each`: how many native items one of theirs becomes."""

    asks: Callable[[Any, str], list[Ask]]
    written: Callable[[Sequence[Answer]], Any]
    nested: bool = False
    each: int = 1


class Parameters(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class ClassParameters(Parameters):
    top_k: Annotated[int, Field(ge=1)] | None = None
    function_to_apply: Literal["softmax", "sigmoid", "none"] | None = None


class TagParameters(Parameters):
    aggregation_strategy: Literal["none", "simple", "first", "average", "max"] = "simple"
    ignore_labels: list[str] | None = None
    stride: Annotated[int, Field(ge=0)] | None = None


class SpanParameters(Parameters):
    top_k: Annotated[int, Field(ge=1, le=100)] = 1
    doc_stride: Annotated[int, Field(ge=0)] | None = None
    max_answer_len: Annotated[int, Field(ge=1)] | None = None
    max_seq_len: Annotated[int, Field(ge=1)] | None = None
    max_question_len: Annotated[int, Field(ge=1)] | None = None
    handle_impossible_answer: bool = False
    align_to_words: bool = False


def classes(model: Model, given: dict[str, Any]) -> Form:
    p = parameters(ClassParameters, given)
    own = {"regression": "none", "ordinal": "softmax"}.get(model.params.output, model.params.output)
    function = p.function_to_apply or own
    if function == own:
        return _form(model, lambda a: a["scores"] or [_number(a)], fields={"top_k": p.top_k}, nested=True)
    if not issubclass(model.task, ClassificationTask):
        raise unsupported("parameters.function_to_apply", f"this model puts windows together by their {own}")

    def applied(answer: Answer) -> list[dict[str, Any]]:
        logits = answer["logits"] or {one["label"]: one["score"] for one in [_number(answer)]}
        labels, scores = list(logits), FUNCTIONS[function](np.array(list(logits.values())))
        best = np.argsort(-scores, kind="stable")[: p.top_k]
        return [{"label": labels[i], "score": rounded(scores[i])} for i in best]

    return _form(model, applied, mark=lambda item: item.with_logits(), nested=True)


def _number(answer: Answer) -> dict[str, Any]:
    """A regression as a class, named after its side of the model's threshold if there is one."""
    return {"label": answer["label"] or "value", "score": answer["value"]}


def entities(model: Model, given: dict[str, Any]) -> Form:
    p = parameters(TagParameters, given)
    ignored = {UNTAGGED} if p.ignore_labels is None else set(p.ignore_labels)
    strategy, tagged = p.aggregation_strategy, issubclass(model.task.Input, EntityItem)
    if strategy != "simple" and not tagged:
        raise unsupported("parameters.aggregation_strategy", "the model finds spans and tags no tokens: give simple")
    if strategy in ("first", "average", "max") and model.params.crf is not None:
        raise unsupported("parameters.aggregation_strategy", "the model tags a whole text at once: give simple or none")
    if strategy != "none" and UNTAGGED in set(model.manifest.labels) - ignored:
        raise unsupported("parameters.ignore_labels", f"what lies between entities is none: let it hold {UNTAGGED}")

    def mark(item: Any) -> None:
        if p.stride is not None:
            item.with_stride(p.stride)
        if strategy == "none":
            item.with_pieces()
        elif strategy != "simple":
            item.with_word_tag(strategy)

    def written(answer: Answer) -> list[dict[str, Any]]:
        if strategy == "none":
            return [_piece(t) for t in answer["pieces"] if t["tag"] not in ignored]
        return [_entity(e) for e in answer["entities"] if e["type"] not in ignored]

    return _form(model, written, mark=mark, places={"stride": "stride"})


def _entity(e: Answer) -> dict[str, Any]:
    return {"entity_group": e["type"], "score": e["score"], "word": e["text"], "start": e["start"], "end": e["end"]}


def _piece(t: Answer) -> dict[str, Any]:
    return {"entity": t["tag"], "word": t["piece"]} | {name: t[name] for name in ("score", "index", "start", "end")}


def answers(model: Model, given: dict[str, Any]) -> Form:
    p = parameters(SpanParameters, given)
    params = model.params
    numbers = Numbers(p.max_seq_len, p.max_question_len, p.max_answer_len, p.doc_stride)
    if p.handle_impossible_answer and params.null_threshold is None:
        raise unsupported("parameters.handle_impossible_answer", f"{model.name} always answers")

    def written(answer: Answer) -> Any:
        spans = [{"answer": s["text"], **{k: s[k] for k in ("score", "start", "end")}} for s in answer["answers"]]
        none = {"answer": "", "score": answer["null_score"] or 0.0, "start": 0, "end": 0}
        if p.handle_impossible_answer:
            # First if the model says that there is no answer, and by its score behind the best one if it says another.
            better = sum(s["score"] >= none["score"] for s in spans)
            spans.insert(max(1, better) if answer["answer"] else 0, none)
        return spans[: p.top_k] if p.top_k > 1 else (spans or [none])[0]

    def mark(item: QuestionItem) -> None:
        item.read_by(numbers, whole_words=p.align_to_words)

    places = {"stride": "doc_stride", "max_length": "max_seq_len", "max_question_tokens": "max_question_len"}
    return _form(model, written, fields={"top_k": p.top_k}, mark=mark, places=places)


def native(model: Model, given: dict[str, Any]) -> Form:
    parameters(Parameters, given)
    return Form(lambda item, path: [model.ask(*fields_of(model, item, path))], lambda together: together[0])


FORMS: dict[str, Callable[[Model, dict[str, Any]], Form]] = {
    "text-classification": classes,
    "pair-classification": classes,
    "span-pair-classification": classes,
    "document-classification": classes,
    "token-classification": entities,
    "span-classification": entities,
    "question-answering": answers,
}


def form(model: Model, given: dict[str, Any]) -> Form:
    """What a model's family makes of the parameters of a request."""
    return FORMS.get(model.manifest.family, native)(model, given)


def _form(
    model: Model,
    written: Callable[[Answer], Any],
    *,
    fields: dict[str, Any] | None = None,
    mark: Callable[[Any], Any] = lambda item: item,
    places: Mapping[str, str] = {},
    nested: bool = False,
) -> Form:
    """One native item for each of theirs, with `fields` set by parameters. `places`: the parameter that is at fault if
    a task names this."""

    def asks(item: Any, path: str) -> list[Ask]:
        given, place = fields_of(model, item, path)
        for name in ("top_k", "tags"):
            if name in given:
                raise unsupported(place.path(name), "this is asked for by parameters here")
        made = model.ask(given | (fields or {}), place).item
        mark(made)
        asked = {name: f"parameters.{parameter}" for name, parameter in places.items()}
        return [Ask(made, Place(place.below, {**place.fields, **asked}))]

    return Form(asks, lambda together: written(together[0]), nested)


def fields_of(model: Model, item: Any, path: str) -> tuple[dict[str, Any], Place]:
    """Native fields of an item of theirs: a text, or an object that has them by name."""
    if isinstance(item, dict):
        return item, Place(path)
    known = model.task.Input.model_fields
    if not isinstance(item, str) or "text" not in known:
        needs = ", ".join(name for name, info in known.items() if info.is_required())
        raise InvalidItem(f"give an object with {needs}", field=path)
    return {"text": item}, Place(path, {"text": path})
