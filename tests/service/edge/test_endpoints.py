"""The endpoints of a bundle around a real runner: single items, batches, readiness, and how each item is counted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from bench import TEXTS, Bench
from desk import Desk, ask
from starlette.responses import Response

from service.batching.pool import Pool
from service.batching.runner import Runner
from service.edge.endpoints import api
from service.edge.http import Handler
from service.errors import NotReady
from service.process.board import Board, Status


@pytest.fixture
def desk(benches: Callable[..., Bench]) -> Desk:
    return Desk(benches(take=0.05), max_text_chars=200, max_batch_items=40)


def posted(handle: Handler, body: Any) -> tuple[int, Any, Response]:
    return asyncio.run(ask(handle, body))


def test_an_answer_comes_with_its_timing_in_headers(desk: Desk) -> None:
    status, answer, response = posted(desk.one, {"text": TEXTS[0]})
    assert status == 200
    desk.bench.equals(answer, TEXTS[0])
    assert float(response.headers["x-queue-ms"]) >= 0
    assert float(response.headers["x-tokenize-ms"]) > 0
    assert float(response.headers["x-inference-ms"]) > 0
    assert response.headers["x-batch-rows"] == "1"
    assert desk.counts.outcomes == {"ok": 1}


@pytest.mark.parametrize(
    ("body", "status", "code", "field"),
    [
        (b"{", 400, "invalid_json", None),
        ({}, 422, "missing_field", "text"),
        ({"text": " "}, 422, "empty_text", "text"),
        ({"text": "\x07"}, 422, "no_tokens", "text"),
        ({"text": "a", "topk": 1}, 422, "unknown_field", "topk"),
        ({"text": "a" * 201}, 422, "text_too_long", "text"),
        ({"text": "," * 63, "on_overflow": "error"}, 422, "text_too_long", "text"),
        ({"text": "a", "timeout_ms": 0}, 422, "invalid_value", "timeout_ms"),
    ],
)
def test_a_refusal_is_told_and_counted_once(desk: Desk, body: Any, status: int, code: str, field: str | None) -> None:
    got, answer, _ = posted(desk.one, body)
    assert (got, answer["error"]["code"], answer["error"].get("field")) == (status, code, field)
    assert sum(desk.counts.outcomes.values()) == 1
    assert "ok" not in desk.counts.outcomes


def test_a_batch_answers_each_item_as_if_it_came_alone(desk: Desk) -> None:
    items = [{"text": text, "top_k": k} for text in TEXTS for k in (1, 2, 7)]
    status, answer, _ = posted(desk.batch, {"items": items})
    assert status == 200
    assert len(answer["results"]) == len(items)
    for item, got in zip(items, answer["results"], strict=True):
        desk.bench.equals(got, item["text"])
        assert len(got["scores"]) == item["top_k"]
    assert desk.counts.outcomes == {"ok": len(items)}


def test_a_bad_item_of_a_batch_is_refused_with_its_path_and_harms_no_other(desk: Desk) -> None:
    bad: list[tuple[Any, str, str]] = [
        ({"text": ""}, "empty_text", "items.{}.text"),
        ({"text": None}, "invalid_value", "items.{}.text"),
        ({}, "missing_field", "items.{}.text"),
        (None, "invalid_value", "items.{}"),
        (["a"], "invalid_value", "items.{}"),
        ({"text": "a", "extra": 1}, "unknown_field", "items.{}.extra"),
        ({"text": "가" * 201}, "text_too_long", "items.{}.text"),
        ({"text": "\ue313"}, "no_tokens", "items.{}.text"),
    ]
    items = [item for item, _, _ in bad]
    mixed = [x for pair in zip(items, [{"text": TEXTS[i % 6]} for i in range(len(bad))], strict=True) for x in pair]
    status, answer, _ = posted(desk.batch, {"items": [*mixed, {"text": " "}]})
    assert status == 200
    assert answer["results"][-1]["error"]["field"] == "items.16.text"
    for i, (_, code, field) in enumerate(bad):
        assert answer["results"][2 * i]["error"]["code"] == code
        assert answer["results"][2 * i]["error"]["field"] == field.format(2 * i)
        desk.bench.equals(answer["results"][2 * i + 1], TEXTS[i % 6])
    assert desk.counts.outcomes["ok"] == len(bad)
    assert sum(desk.counts.outcomes.values()) == 2 * len(bad) + 1


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({"items": []}, "invalid_value", "items"),
        ({"items": [{"text": "a"}] * 41}, "batch_too_large", "items"),
        ({"items": {"text": "a"}}, "invalid_value", "items"),
        ({}, "missing_field", "items"),
        ({"items": [{"text": "a"}], "top_k": 1}, "unknown_field", "top_k"),
        ([{"text": "a"}], "invalid_value", None),
    ],
)
def test_a_batch_of_another_shape_is_refused_as_a_whole(desk: Desk, body: Any, code: str, field: str | None) -> None:
    status, answer, _ = posted(desk.batch, body)
    assert (status, answer["error"]["code"], answer["error"].get("field")) == (422, code, field)
    assert desk.bench.task.ran == []


def test_a_client_who_leaves_takes_every_item_of_its_batch_out_of_the_queue(desk: Desk) -> None:
    bench = desk.bench

    async def scenario() -> None:
        first = await bench.blocked()
        batch = asyncio.create_task(ask(desk.batch, {"items": [{"text": text} for text in TEXTS]}))
        await asyncio.sleep(0.01)
        batch.cancel()
        with pytest.raises(asyncio.CancelledError):
            await batch
        bench.task.gate.set()
        await first
        await bench.ask(TEXTS[1])

    asyncio.run(scenario())
    assert bench.task.ran == [TEXTS[0], TEXTS[1]]
    assert desk.counts.outcomes == {"cancelled": len(TEXTS)}


def test_an_items_own_deadline_is_kept(desk: Desk) -> None:
    bench = desk.bench

    async def scenario() -> list[tuple[int, Any, Response]]:
        first = await bench.blocked()
        late = await ask(desk.one, {"text": TEXTS[1], "timeout_ms": 300})
        bench.task.gate.set()
        await first
        return [late, await ask(desk.one, {"text": TEXTS[2], "timeout_ms": 20_000})]

    (status, answer, _), (fine, _, _) = asyncio.run(scenario())
    assert (status, answer["error"]["code"], fine) == (504, "deadline_exceeded", 200)
    assert desk.counts.outcomes == {"deadline_exceeded": 1, "ok": 1}


def test_a_server_is_ready_when_every_bundle_is_and_says_what_is_not(desk: Desk) -> None:
    """Never with a model missing, whatever the process says (kserve/kserve#799)."""
    server = desk.server
    server.ready()
    server.bundles["re"] = server.bundles["ner"] = cast(Any, None)
    with pytest.raises(NotReady, match=r"^loading ner, re$"):
        server.ready()
    server.failures["re"] = "golden record 0 differs"
    with pytest.raises(NotReady, match=r"^re: golden record 0 differs$"):
        server.ready()
    server.gate.draining = True
    with pytest.raises(NotReady, match="draining"):
        server.ready()


def test_where_keys_are_wanted_strangers_hear_which_bundles_failed_but_not_why(
    benches: Callable[..., Bench], tmp_path: Path
) -> None:
    """Probes are open to everybody, and a reason has folders and golden texts in it."""
    server = Desk(benches(), keys_file=tmp_path / "keys.json").server
    server.failures |= {"re": "/srv/re: golden record 0 differs at label", "ner": "/srv/ner: it has no graph"}
    with pytest.raises(NotReady, match=r"^not loaded: ner, re$"):
        server.ready()
    assert server.condition("re")["reason"] == "/srv/re: golden record 0 differs at label"


def test_a_server_of_several_processes_is_ready_when_all_have_loaded(
    benches: Callable[..., Bench], tmp_path: Path
) -> None:
    board = Board(tmp_path)
    server = Desk(benches(), board, workers=2).server
    for pid in (1, 2):
        board.beat(pid, None)
    board.post(1, Status(ready=True))
    with pytest.raises(NotReady, match=r"^1 of 2 processes have loaded$"):
        server.ready()
    board.post(2, Status(ready=True))
    server.ready()
    board.leave(2)
    server.ready()  # the one that comes instead is not asked before it has loaded


def test_a_bundle_that_is_not_loaded_answers_not_ready(desk: Desk) -> None:
    del desk.server.runners["news"]
    status, answer, response = posted(desk.one, {"text": "a"})
    assert (status, answer["error"]["code"]) == (503, "not_ready")
    assert response.headers["retry-after"] == "1"


def test_bentoml_calls_an_api_as_the_edge_does(desk: Desk) -> None:
    method = api("news", "/news", desk.bench.task.Input, desk.bench.task.Output, desk.one)
    status, answer, _ = asyncio.run(ask(lambda asked: method.func(None, asked.body), {"text": "서울"}))
    assert (status, answer) == posted(desk.one, {"text": "서울"})[:2]


@pytest.fixture
def ward(loaded: Callable[..., Any]) -> Iterator[Desk]:
    """A model that reads notes, of which a request may have twelve."""
    model = loaded("clinical-clue/mortality")
    pool = Pool(1, max_wait=60.0, take=0.01)
    bench = SimpleNamespace(task=model.task, runner=Runner(model.task, model.session, pool))
    yield Desk(cast(Any, bench), max_batch_items=12)
    pool.close()


def notes(count: int) -> dict[str, Any]:
    return {"notes": [{"text": "fever"}] * count}


def test_notes_are_counted_as_items_are(ward: Desk) -> None:
    """Each is answered for: a body of short ones asked for a hundred times its own size."""
    assert posted(ward.one, notes(12))[0] == 200
    status, answer, _ = posted(ward.one, notes(13))
    assert (status, answer["error"]["code"], answer["error"]["field"]) == (422, "batch_too_large", "notes")


def test_notes_of_all_items_of_a_batch_count_together(ward: Desk) -> None:
    assert posted(ward.batch, {"items": [notes(5), {"text": "fever"}, notes(6)]})[0] == 200
    status, answer, _ = posted(ward.batch, {"items": [notes(5), {"text": "fever"}, notes(7)]})
    assert (status, answer["error"]["code"], answer["error"]["field"]) == (422, "batch_too_large", "items")


def test_an_item_of_too_many_notes_or_of_none_is_refused_alone(ward: Desk) -> None:
    status, answer, _ = posted(ward.batch, {"items": [notes(13), {"notes": 7}, notes(0), notes(9)]})
    assert status == 200
    errors = [result.get("error", {}).get("field") for result in answer["results"]]
    assert errors == ["items.0.notes", "items.1.notes", "items.2.notes", None]
