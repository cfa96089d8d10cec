"""Every architecture with every head: the graph answers as the torch model does, at every batch size and length."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
from tiny import ARCHITECTURES, SUITE_OF

from exporters.verify import BATCHES, lengths
from service.bundle import Bundle

CELLS = [
    (architecture, family)
    for architecture in ARCHITECTURES
    for family in SUITE_OF
    # optimum exports no such heads of ModernBERT.
    if architecture != "modernbert" or family not in ("question-answering", "multiple-choice")
]

OWN = (
    "cblue/chip-cdn-ranker",
    "cblue/cmeee-nested",
    "cblue/cmeie-entities",
    "cblue/cmeie-joint",
    "cblue/cmeie-relations",
    "clue/cluener-crf",
    "klue/dp",
    "klue/dp-no-pos",
    "klue/wos",
)
"""A suite for each head that transformers lacks; tests/e2e/test_e2e_suites.py has them on BERT."""


@pytest.mark.parametrize(
    ("architecture", "suite"),
    # The generator of dialogue states scores words by their embeddings, which are narrower in ELECTRA.
    [cell for cell in product(("klue-roberta", "electra", "xlm-roberta"), OWN) if cell != ("electra", "klue/wos")],
)
def test_the_graph_of_every_head_of_ours_equals_torch(
    bundle_of: Callable[..., Path], record_property: Callable[..., None], architecture: str, suite: str
) -> None:
    manifest = Bundle(bundle_of(suite, architecture)).manifest
    found = manifest.provenance["parity"]
    record_property("parity", (architecture, suite, found["max_logit_delta"]))
    assert 0 < found["max_logit_delta"] <= 1e-4
    assert found["shapes"] == len(BATCHES) * len(lengths(manifest.max_length))
    assert found["max_score_delta"] <= 1e-5


@pytest.mark.parametrize(("architecture", "family"), CELLS)
def test_the_graph_of_every_architecture_and_head_equals_torch(
    bundle_of: Callable[..., Path], record_property: Callable[..., None], architecture: str, family: str
) -> None:
    manifest = Bundle(bundle_of(family, architecture)).manifest
    assert manifest.family == family
    found = manifest.provenance["parity"]
    record_property("parity", (architecture, family, found["max_logit_delta"]))
    assert 0 < found["max_logit_delta"] <= 1e-4  # two runtimes that agree to the last bit were not two
    assert found["shapes"] == len(BATCHES) * len(lengths(manifest.max_length))
    assert found["largest_logit"] > 1  # a model that answers nothing agrees with everything
    assert found["max_score_delta"] <= 1e-5
