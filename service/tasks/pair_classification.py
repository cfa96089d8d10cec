"""Classes of two texts in order: inference, paraphrase, similarity, relevance."""

from __future__ import annotations

from service.tasks.base import Text
from service.tasks.classification import ClassificationItem, ClassificationTask


class PairItem(ClassificationItem):
    text: Text
    text_pair: Text


class PairClassification(ClassificationTask):
    family = "pair-classification"
    Input = PairItem
    text_fields = ("text", "text_pair")
