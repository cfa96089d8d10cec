"""A bundle at work: answers go to their callers, a bad item fails alone, what nobody waits for is not done."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest
from bench import TEXTS, Bench

from service.batching.jobs import Turn
from service.errors import InternalError, InvalidItem
from service.types import Answer


def test_answers_go_to_their_own_callers_with_their_own_options(benches: Callable[..., Bench]) -> None:
    """Options that travel with a batch are lost or another's (SeldonIO/MLServer#1541)."""
    bench = benches(threads=2, take=0.02)
    requests = [(TEXTS[i % len(TEXTS)], [1, 2, 7][i % 3]) for i in range(400)]

    async def scenario() -> list[Answer]:
        return await asyncio.gather(*(bench.ask(text, top_k=k) for text, k in requests))

    for (text, k), got in zip(requests, asyncio.run(scenario()), strict=True):
        assert len(got["scores"]) == k
        bench.equals(got, text)
    assert len(bench.task.takes) < len(requests), "nothing was ever answered together"


def test_an_item_that_breaks_the_model_fails_alone(
    benches: Callable[..., Bench], caplog: pytest.LogCaptureFixture
) -> None:
    """Its neighbours in the take are innocent (Lightning-AI/LitServe#340), and its text stays out of the log."""
    bench = benches()
    secret = "비밀 암호는 코끼리 " * 4
    bench.session.bad = bench.read(secret)
    assert bench.session.bad not in map(bench.read, TEXTS)

    async def scenario() -> list[Any]:
        first = await bench.blocked()
        asked = [asyncio.create_task(bench.ask(text)) for text in [*TEXTS[:3], secret, *TEXTS[3:]]]
        await asyncio.sleep(0.01)
        bench.task.gate.set()
        return await asyncio.gather(first, *asked, return_exceptions=True)

    with caplog.at_level(logging.DEBUG):
        _, *answers = asyncio.run(scenario())
    culprit = answers.pop(3)
    assert isinstance(culprit, InternalError)
    assert (culprit.status, culprit.body()) == (500, {"code": "internal", "message": "the model failed on this item"})
    for got, text in zip(answers, TEXTS, strict=True):
        bench.equals(got, text)
    assert sorted(bench.task.takes[1]) == sorted([*TEXTS, secret]), "all in one take"
    assert "RuntimeError" in caplog.text
    assert not any(word in caplog.text for word in (*secret.split(), "input_ids", *TEXTS))


def test_an_item_that_breaks_its_own_reading_fails_alone(
    benches: Callable[..., Bench], caplog: pytest.LogCaptureFixture
) -> None:
    bench = benches()

    def refuse(text: str) -> None:
        if text == TEXTS[3]:
            raise ValueError(f"cannot read {text}")
        if text == TEXTS[4]:
            raise InvalidItem("too odd", field="text")

    bench.task.refuse = refuse

    async def scenario() -> list[Any]:
        return await asyncio.gather(*map(bench.ask, TEXTS), return_exceptions=True)

    with caplog.at_level(logging.DEBUG):
        answers = asyncio.run(scenario())
    assert [type(a) for a in answers] == [dict, dict, dict, InternalError, InvalidItem, dict]
    assert answers[4].body() == {"code": "invalid_item", "message": "too odd", "field": "text"}
    assert "ValueError" in caplog.text
    assert TEXTS[3] not in caplog.text


@pytest.mark.parametrize("spoil", [lambda r: r[1:], lambda r: r[:-1], lambda r: [*r, r[0]], lambda r: []])
def test_too_few_or_too_many_results_never_become_another_callers_answer(
    benches: Callable[..., Bench], spoil: Callable[[list[Any]], list[Any]]
) -> None:
    bench = benches()
    bench.task.spoil = lambda results: spoil(results) if len(results) > 1 else results

    async def scenario() -> list[Answer]:
        first = await bench.blocked()
        asked = [asyncio.create_task(bench.ask(text)) for text in TEXTS]
        await asyncio.sleep(0.01)
        bench.task.gate.set()
        await first
        return await asyncio.gather(*asked)

    for got, text in zip(asyncio.run(scenario()), TEXTS, strict=True):
        bench.equals(got, text)
    assert len(bench.task.takes[1]) == len(TEXTS)


def test_a_missing_result_of_a_lone_item_is_our_fault(benches: Callable[..., Bench]) -> None:
    bench = benches()
    bench.task.spoil = lambda _: []
    with pytest.raises(InternalError, match="the model failed on this item"):
        asyncio.run(bench.ask(TEXTS[0]))


def test_each_answer_says_where_its_time_went(benches: Callable[..., Bench]) -> None:
    bench = benches()

    async def scenario() -> None:
        first = await bench.blocked()
        waiting = [asyncio.create_task(bench.runner.submit(bench.item(text), 20, Turn())) for text in TEXTS[:3]]
        await asyncio.sleep(0.05)
        bench.task.gate.set()
        await first
        for result in await asyncio.gather(*waiting):
            timing = result.timing
            assert timing.queue >= 0.04
            assert min(timing.tokenize, timing.inference, timing.decode) > 0
            assert timing.rows == 3
            assert timing.tokens == result.answer["tokens"]

    asyncio.run(scenario())
