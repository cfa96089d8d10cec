"""Keys without HTTP: what a file may say, who is found, how often a key may ask, and a file that changes."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from service import access
from service.access import CALLER, RECHECK, Bucket, Entry, Key, Keys, make, may_ask, named, require
from service.errors import ConfigError, Forbidden, RateLimited, Unauthorized


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def entry(name: str, **facts: Any) -> tuple[str, dict[str, Any]]:
    text, digest = make(name)
    return text, {"id": name, "sha256": digest, "role": "caller", **facts}


def write(path: Path, *entries: dict[str, Any]) -> Path:
    path.write_text(json.dumps({"keys": entries}), encoding="utf-8")
    return path


def key(**facts: Any) -> Key:
    return Key(Entry.model_validate(entry("a", **facts)[1]), workers=1)


def test_a_key_names_its_id_and_has_256_random_bits() -> None:
    text, digest = make("team-a")
    assert text.startswith("clue_team-a_")
    assert len(bytes.fromhex(text.removeprefix("clue_team-a_"))) == 32
    assert digest == hashlib.sha256(text.encode()).hexdigest()
    assert make("team-a") != (text, digest)


def test_a_key_is_found_by_its_text_and_by_nothing_else(tmp_path: Path) -> None:
    (mine, first), (yours, second) = entry("mine"), entry("yours")
    keys = Keys(write(tmp_path / "keys", first, second))
    assert (keys.find(mine).id, keys.find(yours).id) == ("mine", "yours")
    swapped = mine.replace("mine", "yours")
    for text in ("", "mine", "clue_mine_", mine[:-1], mine + "0", mine.upper(), " " + mine, swapped, first["sha256"]):
        with pytest.raises(Unauthorized, match="no such key"):
            keys.find(text)
    with pytest.raises(Unauthorized):
        keys.find(mine + "é" * 1_000_000)


def test_an_unknown_id_costs_the_same_comparison_as_a_wrong_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[tuple[int, int]] = []
    compare = hmac.compare_digest

    def watched(a: bytes, b: bytes) -> bool:
        compared.append((len(a), len(b)))
        return compare(a, b)

    text, known = entry("known")
    keys = Keys(write(tmp_path / "keys", known))
    monkeypatch.setattr(access.hmac, "compare_digest", watched)
    keys.find(text)
    for wrong in (make("known")[0], make("unknown")[0], "rubbish"):
        with pytest.raises(Unauthorized):
            keys.find(wrong)
    assert compared == [(32, 32)] * 4


def test_a_key_ends_with_its_time(tmp_path: Path) -> None:
    (old, first), (new, second) = (
        entry("old", expires="2020-01-01T00:00:00Z"),
        entry("new", expires="2999-01-01T00:00Z"),
    )
    keys = Keys(write(tmp_path / "keys", first, second))
    assert keys.find(new).id == "new"
    with pytest.raises(Unauthorized, match="expired"):
        keys.find(old)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"id": "Team A"}, r"keys\.0\.id"),
        ({"id": "a" * 33}, r"keys\.0\.id"),
        ({"sha256": "abc"}, r"keys\.0\.sha256"),
        ({"role": "root"}, r"keys\.0\.role"),
        ({"rate": 0}, r"keys\.0\.rate"),
        ({"rate": "inf"}, r"keys\.0\.rate"),
        ({"rate": 1e-310}, r"keys\.0\.rate"),
        ({"rate": 1e308}, r"keys\.0\.rate"),
        ({"rate": 1, "burst": 10**300}, r"keys\.0\.burst"),
        ({"rate": 1, "burst": 10**400}, r"keys\.0\.burst"),
        ({"expires": 1e300}, r"keys\.0\.expires"),
        ({"burst": 5}, "a burst needs a rate"),
        ({"rate": 1, "burst": 0}, r"keys\.0\.burst"),
        ({"expires": "tomorrow"}, r"keys\.0\.expires"),
        ({"expires": "2030-01-01T00:00:00"}, "timezone"),
        ({"bundles": "klue-ner"}, r"keys\.0\.bundles"),
        ({"key": "clue_a_123"}, r"keys\.0\.key: Extra"),
    ],
)
def test_a_file_is_refused_with_what_is_wrong(tmp_path: Path, change: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as refused:
        Keys(write(tmp_path / "keys", entry("a")[1] | change))
    assert str(tmp_path / "keys") in str(refused.value)


def test_an_infinite_number_is_refused_as_well(tmp_path: Path) -> None:
    path = write(tmp_path / "keys", entry("a")[1] | {"rate": 17})
    path.write_text(path.read_text().replace("17", "1e999"))
    with pytest.raises(ConfigError, match=r"keys\.0\.rate"):
        Keys(path)


@pytest.mark.parametrize(
    "facts",
    [
        {"rate": 1e-6},
        {"rate": 1e9},
        {"rate": 1e-6, "burst": 10**9},
        {"rate": 1e9, "burst": 1},
        {"expires": "9999-12-31T23:59:59-23:59"},
        {"expires": "0001-01-01T00:00:00+23:59"},
    ],
)
def test_whatever_a_file_may_say_can_be_kept(facts: dict[str, Any]) -> None:
    made = Key(Entry.model_validate(entry("a", **facts)[1]), workers=64)
    for _ in range(3):
        admitted(made, 0.0)


def test_a_file_that_is_not_there_is_not_json_or_has_an_id_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        Keys(path)
    path.write_text("team-a: secret")
    with pytest.raises(ConfigError, match="Invalid JSON"):
        Keys(path)
    with pytest.raises(ConfigError, match="two keys have the same id"):
        Keys(write(path, entry("a")[1], entry("a")[1]))


@pytest.fixture
def rotated(tmp_path: Path) -> tuple[Path, Clock, Callable[..., None]]:
    """A file of keys, the time, and a way to replace the file as an editor or a mounted secret does."""
    numbers = iter(range(1, 100))

    def replace(*entries: dict[str, Any] | str) -> None:
        new = tmp_path / "new"
        if entries and isinstance(entries[0], str):
            new.write_text(entries[0])
        else:
            write(new, *entries)  # type: ignore[arg-type]
        os.utime(new, ns=(0, next(numbers) * 10**9))
        new.replace(tmp_path / "keys")

    return tmp_path / "keys", Clock(), replace


def test_old_and_new_key_work_side_by_side_until_the_old_is_taken_out(
    rotated: tuple[Path, Clock, Callable[..., None]],
) -> None:
    path, clock, replace = rotated
    (old, first), (new, second) = entry("old"), entry("new")
    replace(first)
    keys = Keys(path, clock=clock)
    replace(first, second)
    with pytest.raises(Unauthorized):
        keys.find(new)  # not looked at again yet
    clock.now += RECHECK
    assert (keys.find(old).id, keys.find(new).id) == ("old", "new")
    replace(second)
    clock.now += RECHECK
    assert keys.find(new).id == "new"
    with pytest.raises(Unauthorized):
        keys.find(old)


def test_a_file_that_breaks_leaves_the_keys_and_is_logged_once(
    rotated: tuple[Path, Clock, Callable[..., None]], caplog: pytest.LogCaptureFixture
) -> None:
    path, clock, replace = rotated
    text, known = entry("a")
    replace(known)
    keys = Keys(path, clock=clock)
    replace("{")
    for _ in range(3):
        clock.now += RECHECK
        assert keys.find(text).id == "a"
    assert caplog.text.count("the keys stay as they were") == 1
    path.unlink()
    for _ in range(3):
        clock.now += RECHECK
        assert keys.find(text).id == "a"
    assert caplog.text.count("the keys stay as they were") == 2
    replace()
    clock.now += RECHECK
    with pytest.raises(Unauthorized):
        keys.find(text)


def test_a_file_that_could_not_be_read_for_a_moment_is_read_again(
    rotated: tuple[Path, Clock, Callable[..., None]], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a server has no file descriptor left: what was revoked then must not stay valid."""
    path, clock, replace = rotated
    text, known = entry("a")
    replace(known)
    keys = Keys(path, clock=clock)
    replace()

    def full(path: Path) -> bytes:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", full)
        for _ in range(3):
            clock.now += RECHECK
            assert keys.find(text).id == "a"
    assert caplog.text.count("the keys stay as they were") == 1
    clock.now += RECHECK
    with pytest.raises(Unauthorized):
        keys.find(text)


def test_a_key_that_did_not_change_keeps_what_it_has_used(rotated: tuple[Path, Clock, Callable[..., None]]) -> None:
    path, clock, replace = rotated
    (text, slow), (_, other) = entry("slow", rate=0.001, burst=1), entry("other")
    replace(slow)
    keys = Keys(path, clock=clock)
    keys.find(text).spend(clock.now)
    replace(slow, other)
    clock.now += RECHECK
    with pytest.raises(RateLimited):
        keys.find(text).spend(clock.now)
    replace(slow | {"burst": 2}, other)
    clock.now += RECHECK
    keys.find(text).spend(clock.now)


def test_a_bucket_gives_its_burst_then_its_rate() -> None:
    bucket = Bucket(rate=2, burst=3)
    assert [bucket.take(10.0) for _ in range(4)] == [0, 0, 0, 0.5]
    assert [bucket.take(10.5), bucket.take(10.5)] == [0, 0.5]
    assert [bucket.take(1000.0) for _ in range(4)] == [0, 0, 0, 0.5]


def test_a_rate_holds_over_all_workers() -> None:
    made = Entry.model_validate(entry("a", rate=10, burst=20)[1])
    workers = [Key(made, workers=4) for _ in range(4)]
    asked = [(second / 100, worker) for second in range(1000) for worker in workers]
    assert sum(admitted(worker, at) for at, worker in asked) == pytest.approx(20 + 10 * 10, abs=4)


def admitted(worker: Key, now: float) -> bool:
    try:
        worker.spend(now)
    except RateLimited:
        return False
    return True


def test_who_comes_too_soon_is_told_when_to_come_again() -> None:
    slow = key(rate=0.1)
    slow.spend(0.0)
    with pytest.raises(RateLimited) as refused:
        slow.spend(2.0)
    assert (refused.value.status, refused.value.reason, refused.value.headers()) == (
        429,
        "rate_limited",
        {"Retry-After": "8"},
    )
    slow.spend(10.0)


@pytest.mark.parametrize(
    ("facts", "may"),
    [
        ({}, {"ner", "nli"}),
        ({"role": "admin"}, {"ner", "nli"}),
        ({"bundles": ["ner"]}, {"ner"}),
        ({"bundles": ["ner"], "role": "admin"}, {"ner"}),
        ({"bundles": []}, set()),
        ({"role": "metrics"}, set()),
    ],
)
def test_a_key_may_ask(facts: dict[str, Any], may: set[str]) -> None:
    token = CALLER.set(key(**facts))
    try:
        assert {name for name in ("ner", "nli") if may_ask(name)} == may
        for name in {"ner", "nli"} - may:
            with pytest.raises(Forbidden, match=f"may not ask {name}") as refused:
                require(name, "tasks.0")
            assert (refused.value.status, refused.value.field) == (403, "tasks.0")
    finally:
        CALLER.reset(token)


def test_without_keys_everybody_may_ask() -> None:
    assert may_ask("anything")
    require("anything")


@pytest.mark.parametrize(
    ("path", "models"),
    [
        ("/ner", ["ner"]),
        ("/ner/batch", ["ner"]),
        ("/models/ner", ["ner"]),
        ("/v2/models/ner/versions/1/infer", ["ner"]),
        ("/tei/nli/rerank", ["nli"]),
        ("/v1/models", []),
        ("/nerve", []),
        ("/assets/0123/ner/nli", []),
    ],
)
def test_a_path_is_about_the_models_between_its_slashes(path: str, models: list[str]) -> None:
    assert named(path, {"ner", "nli"}) == models
