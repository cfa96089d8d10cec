"""Many items: split to the server's limits, a bounded number of parts at once, results in order."""

from __future__ import annotations

import time
from typing import Any

import pytest
from flaky_server import DROP, Caller, Flaky, Say, Wait, refusal
from hypothesis import given
from hypothesis import strategies as st

from clueserve import Answer, BadRequest, DeadlineExceeded, NotAllowed, Overloaded, ServerFault
from clueserve.batches import split


def items(n: int) -> list[dict[str, str]]:
    return [{"text": f"글 {i}"} for i in range(n)]


def labels(outcomes: list[Any]) -> list[Any]:
    return [one.label if isinstance(one, Answer) else one.code for one in outcomes]


def test_a_batch_is_split_to_the_servers_limit_of_items_and_put_together_in_order(flaky: Flaky, call: Caller) -> None:
    assert labels(call("batch", "news", items(35))) == [f"글 {i}" for i in range(35)]
    assert sorted(len(one.body["items"]) for one in flaky.posts) == [5, 10, 10, 10]
    assert len({one.path for one in flaky.posts}) == 1


def test_a_batch_is_split_to_the_servers_limit_of_bytes(flaky: Flaky, call: Caller) -> None:
    texts = ["가" * n for n in (200, 300, 100, 250, 10, 310)]
    assert labels(call("batch", "news", [{"text": text} for text in texts])) == texts
    assert len(flaky.posts) > 1
    assert max(one.size for one in flaky.posts) <= flaky.limits["max_body_bytes"]


@given(st.lists(st.integers(1, 60), max_size=30), st.integers(1, 8), st.integers(1, 100))
def test_parts_are_consecutive_and_within_the_limits(sizes: list[int], most_items: int, most_bytes: int) -> None:
    parts = list(split(sizes, most_items, most_bytes))
    assert [i for part in parts for i in part] == list(range(len(sizes)))
    for part in parts:
        assert 1 <= len(part) <= most_items
        assert len(part) == 1 or sum(sizes[i] + 1 for i in part) <= most_bytes


def test_only_so_many_parts_are_under_way_at_once(flaky: Flaky, call: Caller) -> None:
    flaky.script.extend([Wait(0.1)] * 8)
    call("batch", "news", items(80), settings={"concurrency": 3})
    assert 2 <= flaky.most_under_way <= 3


def test_an_item_that_fails_has_its_error_in_its_place_with_its_own_path(flaky: Flaky, call: Caller) -> None:
    batch = items(25)
    batch[3] = batch[17] = {"text": "empty"}
    outcomes = call("batch", "news", batch)
    assert [i for i, one in enumerate(outcomes) if not isinstance(one, Answer)] == [3, 17]
    assert isinstance(outcomes[17], BadRequest)
    assert (outcomes[17].code, outcomes[17].field, outcomes[17].status) == ("empty_text", "items.17.text", 422)


def test_items_that_were_refused_as_too_much_are_asked_again_and_no_others(flaky: Flaky, call: Caller) -> None:
    batch = [*items(5), {"text": "busy 1"}, *items(5), {"text": "busy 2"}]
    assert labels(call("batch", "news", batch)) == [one["text"] for one in batch]
    assert [one["text"] for one in flaky.posts[-1].body["items"]] == ["busy 1", "busy 2"]


def test_items_that_were_refused_are_not_asked_before_there_is_room(flaky: Flaky, call: Caller) -> None:
    flaky.busy_for = 1
    start = time.monotonic()
    assert labels(call("batch", "news", [{"text": "a"}, {"text": "busy"}])) == ["a", "busy"]
    assert time.monotonic() - start >= 1


def test_an_item_that_stays_refused_says_so_in_its_place(flaky: Flaky, call: Caller) -> None:
    outcomes = call("batch", "news", [{"text": "a"}, {"text": "busy"}], settings={"retries": 0})
    assert labels(outcomes) == ["a", "overloaded"]
    assert isinstance(outcomes[1], Overloaded)
    assert outcomes[1].field == "items.1"


def test_a_part_that_is_lost_takes_no_answered_one_with_it(flaky: Flaky, call: Caller) -> None:
    flaky.script.extend([Wait(0), Wait(2), Wait(0)])
    outcomes = call("batch", "news", items(30), timeout=0.8, settings={"concurrency": 1})
    late = [i for i, one in enumerate(outcomes) if isinstance(one, DeadlineExceeded)]
    assert late == list(range(10, 30))
    assert labels(outcomes[:10]) == [f"글 {i}" for i in range(10)]


@pytest.mark.parametrize(
    ("status", "kind"), [(400, BadRequest), (401, NotAllowed), (403, NotAllowed), (408, BadRequest)]
)
def test_a_part_that_is_refused_takes_no_answered_one_with_it(
    flaky: Flaky, call: Caller, status: int, kind: type[BadRequest]
) -> None:
    flaky.script.extend([Wait(0), refusal(status, "no"), Wait(0)])
    outcomes = call("batch", "news", items(30), settings={"concurrency": 1})
    assert labels(outcomes) == [*(f"글 {i}" for i in range(10)), *["no"] * 10, *(f"글 {i}" for i in range(20, 30))]
    assert (type(outcomes[10]), outcomes[10].status) == (kind, status)


@pytest.mark.parametrize("lost", [refusal(401, "no"), refusal(500, "no")])
def test_half_a_part_that_is_lost_does_not_take_the_other_with_it(flaky: Flaky, call: Caller, lost: Say) -> None:
    flaky.script.extend([refusal(413, "body_too_large"), Wait(0), lost])
    outcomes = call("batch", "news", items(4), settings={"concurrency": 1})
    assert labels(outcomes) == ["글 0", "글 1", "no", "no"]


def test_a_batch_of_which_nothing_was_answered_raises(flaky: Flaky, call: Caller) -> None:
    flaky.script.extend([refusal(500, "internal")] * 3)
    with pytest.raises(ServerFault):
        call("batch", "news", items(30))


def test_parts_are_retried_on_their_own(flaky: Flaky, call: Caller) -> None:
    flaky.script.extend([DROP, refusal(503, "not_ready")])
    assert labels(call("batch", "news", items(30))) == [f"글 {i}" for i in range(30)]
    assert len(flaky.posts) == 5


def test_limits_that_have_shrunk_since_are_found_by_halving(flaky: Flaky, call: Caller) -> None:
    flaky.script.extend([Say(413, b"<h1>413</h1>"), refusal(422, "batch_too_large")])
    assert labels(call("batch", "news", items(10), settings={"concurrency": 1})) == [f"글 {i}" for i in range(10)]
    assert [len(one.body["items"]) for one in flaky.posts] == [10, 5, 2, 3, 5]


def test_an_item_that_is_too_large_alone_is_refused_alone(flaky: Flaky, call: Caller) -> None:
    flaky.limits["max_body_bytes"] = 80
    flaky.script.append(refusal(413, "body_too_large"))
    outcomes = call("batch", "news", [{"text": "가" * 100}, {"text": "나"}], settings={"concurrency": 1})
    assert labels(outcomes) == ["body_too_large", "나"]
    assert outcomes[0].field == "items.0"


def test_what_is_no_json_is_refused_in_its_place_and_not_sent(flaky: Flaky, call: Caller) -> None:
    batch = [{"text": "a"}, {"text": "\ud800"}, {"text": "b", "threshold": float("nan")}, {"text": "c"}]
    outcomes = call("batch", "news", batch)
    assert labels(outcomes) == ["a", "invalid_json", "invalid_json", "c"]
    assert [one["text"] for one in flaky.posts[0].body["items"]] == ["a", "c"]
    assert outcomes[1].field == "items.1"
    with pytest.raises(BadRequest, match="surrogate"):
        call("ask", "news", text="\ud800")


def test_an_empty_batch_asks_nothing(flaky: Flaky, call: Caller) -> None:
    assert call("batch", "news", []) == []
    assert flaky.posts == []


def test_parse_splits_texts_by_tasks_and_answers_a_column_a_task(flaky: Flaky, call: Caller) -> None:
    texts = [f"글 {i}" for i in range(12)]
    document = call("parse", texts, ["topic", "news"], timeout_ms=900)
    assert {task: labels(column) for task, column in document.items()} == {"topic": texts, "news": texts}
    assert sorted(len(one.body["text"]) for one in flaky.posts) == [2, 5, 5]
    assert all(one.body["timeout_ms"] == 900 for one in flaky.posts)


def test_parse_of_one_text_answers_one_a_task(flaky: Flaky, call: Caller) -> None:
    document = call("parse", "empty", ["news", "topic"])
    assert list(document) == ["news", "topic"]
    assert (document["news"].code, document["news"].field) == ("empty_text", "text")
    assert call("parse", "busy", ["news"])["news"].label == "busy"
    several = call("parse", ["a", "empty"], ["news"])["news"]
    assert (labels(several), several[1].field) == (["a", "empty_text"], "text.1")


def test_parse_asks_again_only_the_tasks_that_refused(flaky: Flaky, call: Caller) -> None:
    texts = ["a", *(f"busy {i}" for i in range(9))]
    document = call("parse", texts, ["news", "topic"], timeout_ms=900)
    assert {task: labels(column) for task, column in document.items()} == {"news": texts, "topic": texts}
    # Of a text that is busy only the first task is refused; a part of one task takes twice as many texts.
    assert flaky.posts[-1].body == {"text": texts[1:], "tasks": ["news"], "timeout_ms": 900}
    assert len(flaky.posts) == 3


def test_texts_are_asked_again_by_the_tasks_that_they_lack(flaky: Flaky, call: Caller) -> None:
    good, busy = flaky.cell("first", "text"), {"error": {"code": "not_ready", "message": "loading"}}
    flaky.script.append(Say(200, {"news": [busy, good, busy, busy], "topic": [good, busy, busy, good]}))
    document = call("parse", ["a", "b", "c", "d"], ["news", "topic"])
    assert {task: labels(column) for task, column in document.items()} == {
        "news": ["a", "first", "c", "d"],
        "topic": ["first", "b", "c", "first"],
    }
    asked = sorted((one.body["tasks"], one.body["text"]) for one in flaky.posts[1:])
    assert asked == [(["news"], ["a", "d"]), (["news", "topic"], ["c"]), (["topic"], ["b"])]


@pytest.mark.parametrize(
    ("second", "code"),
    [
        (refusal(500, "internal"), "internal"),
        (refusal(401, "unauthorized"), "unauthorized"),
        (Say(200, {"news": [{"error": {"code": "internal", "message": "broken"}}]}), "internal"),
        (Say(200, {"news": []}), "not_clueserve"),
    ],
)
def test_what_one_task_answered_outlives_another_tasks_retry(
    flaky: Flaky, call: Caller, second: Say, code: str
) -> None:
    flaky.script.extend([Wait(0), second])
    document = call("parse", "busy", ["news", "topic"])
    assert labels(list(document.values())) == [code, "busy"]


def test_parse_of_which_nothing_was_answered_raises(flaky: Flaky, call: Caller) -> None:
    flaky.script.extend([Wait(0), refusal(500, "internal")])
    with pytest.raises(ServerFault):
        call("parse", "busy", ["news"])


@pytest.mark.parametrize("tasks", ["news", []])
def test_parse_wants_its_tasks_in_a_list(call: Caller, tasks: Any) -> None:
    with pytest.raises(BadRequest) as told:
        call("parse", "a", tasks)
    assert told.value.field == "tasks"


def test_what_the_server_says_of_the_tasks_is_raised(flaky: Flaky, call: Caller) -> None:
    body = {"error": {"code": "unfit_task", "message": "needs more than a text", "field": "tasks.1"}}
    flaky.script.extend([Say(422, body)] * 3)
    with pytest.raises(BadRequest) as told:
        call("parse", ["a"] * 12, ["news", "pair"], settings={"concurrency": 1})
    assert (told.value.code, told.value.field) == ("unfit_task", "tasks.1")


def test_a_batch_keeps_to_its_timeout(flaky: Flaky, call: Caller) -> None:
    flaky.script.extend([Wait(3)] * 4)
    start = time.monotonic()
    with pytest.raises(DeadlineExceeded):
        call("batch", "news", items(40), timeout=0.5)
    assert time.monotonic() - start < 2.5
