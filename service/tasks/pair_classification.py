"""Classes of two texts in order: inference, paraphrase, similarity, relevance."""

from __future__ import annotations

from pydantic import model_validator

from service.bundle import Bundle
from service.errors import BundleError
from service.tasks.base import Text
from service.tasks.classification import ClassificationItem, ClassificationTask, TextParams


class Params(TextParams):
    """What a class means for the pair, where a class means it. `entailment`: the second text follows from the first,
    `contradiction`: it cannot be true with it. `positive`: the texts mean the same, or the second answers the first."""

    entailment: str | None = None
    contradiction: str | None = None
    positive: str | None = None

    @model_validator(mode="after")
    def _both(self) -> Params:
        if (self.entailment is None) != (self.contradiction is None):
            raise ValueError("entailment and contradiction go together")
        return self


class PairItem(ClassificationItem):
    text: Text
    text_pair: Text


class PairClassification(ClassificationTask):
    family = "pair-classification"
    Input = PairItem
    Params = Params
    text_fields = ("text", "text_pair")

    def __init__(self, bundle: Bundle) -> None:
        super().__init__(bundle)
        meant = {self.params.entailment, self.params.contradiction, self.params.positive} - {None}
        if strange := sorted(meant - set(self.manifest.labels)):
            raise BundleError(f"{bundle.folder}: decoder gives a meaning to {', '.join(strange)}, which are no labels")
