"""What a class means for a pair is in the bundle: which is entailment, which contradiction, which a yes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from service.bundle import Bundle
from service.errors import BundleError
from service.tasks import family


def opened(folder: Path) -> Any:
    bundle = Bundle(folder)
    return family(bundle)(bundle)


def test_a_suite_says_what_its_classes_mean(bundle_of: Callable[[str], Path]) -> None:
    params = opened(bundle_of("klue/nli")).params
    assert (params.entailment, params.contradiction, params.positive) == ("entailment", "contradiction", None)
    assert opened(bundle_of("chineseblue/cmedqq")).params.positive == "1"


def test_a_bundle_need_not_say_it(copy_of: Callable[..., Path]) -> None:
    silent = copy_of("klue/nli", decoder={"entailment": None, "contradiction": None})
    assert opened(silent).params.entailment is None


@pytest.mark.parametrize(
    ("decoder", "message"),
    [
        ({"entailment": "yes"}, "gives a meaning to yes, which are no labels"),
        ({"positive": "yes"}, "gives a meaning to yes, which are no labels"),
        ({"contradiction": None}, "entailment and contradiction go together"),
    ],
)
def test_a_meaning_of_no_label_is_refused(copy_of: Callable[..., Path], decoder: Any, message: str) -> None:
    with pytest.raises(BundleError, match=message):
        opened(copy_of("klue/nli", decoder=decoder))


def test_logits_are_in_no_answer_unless_a_protocol_asks(loaded: Callable[[str], Any]) -> None:
    nli = loaded("klue/nli")
    item = nli.item(text="서울", text_pair="부산")
    assert "logits" not in nli.ask(text="서울", text_pair="부산")
    with pytest.raises(ValueError, match="Extra inputs"):
        nli.item(text="서울", text_pair="부산", _logits=True)
    encoded = nli.task.encode(item)
    outputs = nli.session.run(encoded.rows)
    logits = nli.task.decode(item.with_logits(), encoded, outputs)["logits"]
    assert logits == dict(zip(nli.task.manifest.labels, outputs[0]["logits"].tolist(), strict=True))


def test_tokens_are_in_no_answer_unless_a_protocol_asks(loaded: Callable[[str], Any]) -> None:
    ner = loaded("klue/ner")
    assert "pieces" not in ner.ask(text="오늘 부산", tags=True)
    item = ner.item(text="오늘 부산", tags=True)
    encoded = ner.task.encode(item)
    answer = ner.task.decode(item.with_pieces(), encoded, ner.session.run(encoded.rows))
    assert [piece["tag"] for piece in answer["pieces"]] == [answer["tags"][p["start"]] for p in answer["pieces"]]
    assert [piece["index"] for piece in answer["pieces"]] == list(range(1, len(answer["pieces"]) + 1))
