"""Classes of one text: topic, intent, sentiment; softmax, multi-label or regression."""

from __future__ import annotations

from service.tasks.base import Text
from service.tasks.classification import ClassificationItem, ClassificationTask


class TextItem(ClassificationItem):
    text: Text


class TextClassification(ClassificationTask):
    family = "text-classification"
    Input = TextItem
