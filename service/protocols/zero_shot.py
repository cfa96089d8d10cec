"""The zero-shot pipeline over a model of pairs: each label becomes a hypothesis that the text may entail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from service.errors import InvalidItem
from service.protocols.common import Ask, Model, Place, parameters, unsupported
from service.protocols.pipelines import Form, Parameters, fields_of
from service.tasks import pair_classification
from service.types import Answer, rounded, sigmoid, softmax


class ZeroShotParameters(Parameters):
    candidate_labels: Any
    multi_label: bool = False
    hypothesis_template: str = "This example is {}."


def zero_shot(model: Model, given: dict[str, Any], older: bool) -> Form:
    """Each label as a hypothesis that the text may entail. `older`: answer as the pipeline does, in two lists."""
    p = parameters(ZeroShotParameters, given)
    params = model.params
    if not isinstance(params, pair_classification.Params) or params.entailment is None:
        raise unsupported("parameters.candidate_labels", f"{model.name} has no class that it calls entailment")
    candidates = _candidates(model, p.candidate_labels)
    hypotheses = _hypotheses(model, p.hypothesis_template, candidates)
    roles = (params.contradiction, params.entailment)

    def asks(item: Any, path: str) -> list[Ask]:
        fields, place = fields_of(model, item, path)
        if "text_pair" in fields:
            raise InvalidItem("the labels make the second text", field=place.path("text_pair"))
        made = []
        for i, hypothesis in enumerate(hypotheses):
            at = Place(place.below, {**place.fields, "text_pair": f"parameters.candidate_labels.{i}"})
            made.append(model.ask(fields | {"text_pair": hypothesis}, at))
            made[-1].item.with_logits().split_by(made[-1].item.text)
        return made

    def written(together: Sequence[Answer]) -> Any:
        no, yes = np.array([[answer["logits"][role] for role in roles] for answer in together]).T
        scores = sigmoid(yes - no) if p.multi_label or len(candidates) == 1 else softmax(yes)
        ranked = [(candidates[i], rounded(scores[i])) for i in np.argsort(-scores, kind="stable")]
        if older:
            return {"labels": [label for label, _ in ranked], "scores": [score for _, score in ranked]}
        return [{"label": label, "score": score} for label, score in ranked]

    return Form(asks, written, each=len(candidates))


def _candidates(model: Model, value: Any) -> list[str]:
    """A list of labels, or one string of them with commas between, as the pipeline takes it."""
    if isinstance(value, str | list):
        model.limit(value.count(",") + 1 if isinstance(value, str) else len(value), "parameters.candidate_labels")
    labels = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
    if not isinstance(labels, list) or not labels or not all(isinstance(x, str) and x.strip() for x in labels):
        raise InvalidItem("give a list of labels, none of them empty", field="parameters.candidate_labels")
    return labels


def _hypotheses(model: Model, template: str, labels: Sequence[str]) -> list[str]:
    """The template with each label; nothing is written before it is known how much it will be."""
    settings, places = model.server.settings, template.count("{}")
    if not places:
        raise InvalidItem("the template has no {} for the label", field="parameters.hypothesis_template")
    sizes = [len(template) + places * (len(label) - 2) for label in labels]
    most = settings.max_text_chars
    for i, size in enumerate(sizes):
        if size > most:
            path = f"parameters.candidate_labels.{i}"
            raise InvalidItem(f"the text has more than {most} characters", field=path, code="text_too_long")
    if sum(sizes) > settings.max_body_bytes:  # as many could not be sent
        why = f"the labels make {sum(sizes)} characters of it; at most {settings.max_body_bytes}"
        raise InvalidItem(why, field="parameters.hypothesis_template", code="batch_too_large")
    return [template.replace("{}", label) for label in labels]
