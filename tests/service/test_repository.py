"""A worker's models: loading beside what is there, switching, letting go, and who is answered by which version."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import edit

from service.batching.jobs import Turn
from service.batching.pool import Pool
from service.bundle import Bundle
from service.config import Settings, find_models, open_entry
from service.edge.admin import Admin, Load, scaled
from service.edge.gate import Gate
from service.process.board import Board, Desired, Entry, Model
from service.repository import Repository, Split
from service.server import Server
from service.tasks.text_classification import TextClassification

Item = TextClassification.Input


def entry(folder: Path, share: float = 1.0) -> Entry:
    return Entry(reference=str(folder), folder=folder, version=Bundle(folder).version, share=share)


class Told:
    """Telemetry that remembers what is ready, and of which bundle it was told that it is unloaded."""

    def __init__(self) -> None:
        self.well: dict[str, bool] = {}
        self.off: dict[str, Bundle] = {}

    def ready(self, name: str, bundle: Bundle, device: str, well: bool = True) -> None:
        self.well[name] = well
        self.off.pop(name, None)

    def unready(self, name: str) -> None:
        self.well[name] = False
        self.off.pop(name, None)

    def unloaded(self, name: str, bundle: Bundle, device: str) -> None:
        self.well[name] = False
        self.off[name] = bundle

    def __getattr__(self, name: str) -> Any:
        return lambda *_: lambda *_: None


class Worker:
    """A repository that follows wishes at once."""

    def __init__(self, folder: Path) -> None:
        self.pool = Pool(1, max_wait=60, take=1)
        self.told = Told()
        self.repository = Repository(Settings(), {"topic": Bundle(folder)}, Gate())
        self.repository.start(cast(Any, self.told), self.pool)
        self.revision = 0

    def want(self, *versions: Entry, loaded: bool = True) -> None:
        self.revision += 1
        models = {"topic": Model(versions=versions, loaded=loaded)}
        self.repository.follow(Desired(revision=self.revision, models=models), 1, lambda function: function())

    def ask(self, text: str) -> str:
        """The version that answered."""
        item = Item(text=text)
        runner = self.repository.runners["topic"]
        if split := self.repository.splits.get("topic"):
            runner = split.choose(item)
        return asyncio.run(runner.submit(item, 20, Turn())).timing.version

    @property
    def in_memory(self) -> list[str]:
        return sorted(owner.version for owner in cast(Any, self.pool)._owners)


@pytest.fixture
def folders(bundle_of: Callable[[str], Path], tmp_path: Path) -> list[Path]:
    """Three versions of one bundle, of which the last fails its golden records."""
    made = []
    for i in range(3):
        folder = tmp_path / f"v{i}"
        shutil.copytree(bundle_of("klue/ynat"), folder)
        edit(folder, provenance={"try": i})
        made.append(folder)
    golden = [record.model_dump() for record in Bundle(made[2]).manifest.golden]
    golden[0]["answer"]["tokens"] += 1
    edit(made[2], golden=golden)
    return made


@pytest.fixture
def worker(folders: list[Path]) -> Iterator[Worker]:
    made = Worker(folders[0])
    yield made
    made.pool.close()


def test_versions_come_and_go_and_what_is_not_wanted_leaves_the_memory(worker: Worker, folders: list[Path]) -> None:
    first, second, _ = (entry(folder) for folder in folders)
    worker.want(first)
    assert (worker.ask("서울"), worker.in_memory) == (first.version, [first.version])
    worker.want(first, second.model_copy(update={"share": 0.0}))
    assert worker.in_memory == sorted([first.version, second.version])
    assert {worker.ask(str(n)) for n in range(20)} == {first.version}, "a share of 0 answers nothing"
    worker.want(second)
    assert (worker.ask("서울"), worker.in_memory) == (second.version, [second.version])
    assert worker.repository.bundles["topic"].version == second.version
    worker.want(second, loaded=False)
    assert (worker.repository.runners, worker.in_memory, worker.told.well) == ({}, [], {"topic": False})
    worker.want(first)
    assert (worker.ask("서울"), worker.told.well) == (first.version, {"topic": True})


def test_a_version_that_fails_its_golden_records_is_told_and_the_others_answer(
    worker: Worker, folders: list[Path]
) -> None:
    first, _, broken = (entry(folder) for folder in folders)
    worker.want(first)
    worker.want(first, broken.model_copy(update={"share": 0.0}))
    assert "golden record 0 differs" in worker.repository.problems["topic"][broken.version]
    assert worker.repository.failures == {}, "nobody relies on it yet"
    assert worker.repository.states("topic", worker.repository.models["topic"])[broken.version][0] == "UNAVAILABLE"
    assert worker.ask("서울") == first.version
    worker.want(broken)
    assert "golden record 0 differs" in worker.repository.failures["topic"]
    assert worker.repository.runners == {}
    worker.want(first)
    assert worker.repository.failures == worker.repository.problems == {}
    assert worker.ask("서울") == first.version


def test_what_nobody_wants_is_unloaded_and_what_fails_is_not(worker: Worker, folders: list[Path]) -> None:
    first, _, broken = (entry(folder) for folder in folders)
    worker.want(first, loaded=False)
    assert worker.told.off["topic"].version == first.version, "a worker that starts while it is unloaded"
    worker.want(broken)
    assert (worker.told.off, worker.told.well) == ({}, {"topic": False})
    worker.want(broken, loaded=False)
    assert list(worker.told.off) == ["topic"]
    worker.want(first)
    assert (worker.told.off, worker.told.well) == ({}, {"topic": True})


def test_a_version_is_let_go_only_when_it_has_answered(worker: Worker, folders: list[Path]) -> None:
    first, second, _ = (entry(folder) for folder in folders)
    worker.want(first)
    runner = worker.repository.runners["topic"]

    async def scenario() -> str:
        waiting = asyncio.create_task(runner.submit(Item(text="서울"), 20, Turn()))
        await asyncio.sleep(0)
        assert not runner.idle
        await asyncio.to_thread(worker.want, second)
        return (await waiting).timing.version

    assert asyncio.run(scenario()) == first.version
    assert worker.in_memory == [second.version]


def test_a_bundle_that_is_exported_again_in_place_is_not_served_as_the_version_that_it_was(
    worker: Worker, folders: list[Path]
) -> None:
    first, second, _ = (entry(folder) for folder in folders)
    edit(folders[1], provenance={"try": 7})
    worker.want(first, second)
    assert f"is version {Bundle(folders[1]).version} by now" in worker.repository.problems["topic"][second.version]
    assert {worker.ask(str(n)) for n in range(20)} == {first.version}
    worker.want(entry(folders[1]))
    assert worker.ask("서울") == Bundle(folders[1]).version


def test_a_version_is_the_same_through_a_link_and_from_within(
    folders: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the store's form it is called as its folder is."""
    (folders[0] / "model.yaml").touch()
    (tmp_path / "link").symlink_to(folders[0])
    monkeypatch.chdir(folders[0])
    for reference in ("./", str(tmp_path / "link")):
        (found,) = find_models(Settings(models=f"topic={reference}"))["topic"].versions
        assert open_entry(found).version == found.version == found.folder.name
    board = Board(tmp_path)
    board.want({"topic": Model(versions=(found,))})
    admin = Admin(cast(Any, SimpleNamespace(bundles={"topic": Bundle(folders[0])})), board)
    asked = admin._entry("topic", Load(reference=str(tmp_path / "link")), Model(versions=(found,)))
    assert open_entry(asked).version == asked.version == "v0"


def test_readiness_does_not_mind_that_an_unloaded_model_is_loaded_again(folders: list[Path]) -> None:
    """Its new version is first there without a share, in one worker sooner than in another."""
    server = Server(Settings(), {"topic": Bundle(folders[0])})
    server.pool = Pool(1, max_wait=60, take=1)
    server.repository.start(cast(Any, Told()), server.pool)
    first, second, _ = (entry(folder) for folder in folders)
    steps = [
        ((first,), True),
        ((first,), False),
        ((second.model_copy(update={"share": 0.0}),), True),
        ((second,), True),
    ]
    told = []
    for number, (versions, loaded) in enumerate(steps, 1):
        models = {"topic": Model(versions=versions, loaded=loaded)}
        server.repository.follow(Desired(revision=number, models=models), 1, lambda function: function())
        server.ready()
        told.append(server.why_not("topic"))
    assert told == [None, "topic is unloaded", "topic is unloaded", None]
    server.pool.close()


def split(*shares: float) -> Split:
    runners: list[Any] = [SimpleNamespace(version=str(i)) for i in range(len(shares))]
    return Split("topic", list(zip(shares, runners, strict=True)))


def chosen(chooser: Split, n: int = 2000, **fields: Any) -> list[str]:
    return [chooser.choose(Item(text=f"text {i}", **fields)).version for i in range(n)]


def test_shares_are_kept_over_many_items() -> None:
    for shares in ((0.7, 0.25, 0.05), (0.05, 0.7, 0.25), (1 / 3, 1 / 3, 1 / 3), (0.01, 0.99)):
        counts = Counter(chosen(split(*shares), 20_000))
        found = [counts[str(i)] / 20_000 for i in range(len(shares))]
        assert found == pytest.approx(shares, abs=0.014), "four standard deviations"


def test_the_item_decides_and_not_how_long_its_caller_waits() -> None:
    chooser = split(0.5, 0.5)
    assert chosen(chooser, 100) == chosen(split(0.5, 0.5), 100) == chosen(chooser, 100, timeout_ms=77)
    assert chosen(chooser, 100) != chosen(Split("news", [(s, r) for s, _, r in chooser._parts]), 100)


@given(st.permutations([("a", 0.5), ("b", 0.3), ("c", 0.2)]), st.sampled_from("abc"), st.floats(0.0, 1.0))
def test_a_growing_share_only_takes_wherever_it_stands(parts: list[tuple[str, float]], which: str, more: float) -> None:
    def of(shares: dict[str, float]) -> list[str]:
        runners: list[Any] = [SimpleNamespace(version=version) for version in shares]
        return chosen(Split("topic", list(zip(shares.values(), runners, strict=True))), 50)

    before = dict(parts)
    share = before[which] + more * 0.99 * (1 - before[which])
    rest = {v: s * (1 - share) / (1 - before[which]) for v, s in before.items() if v != which}
    moved = [(a, b) for a, b in zip(of(before), of(rest | {which: share}), strict=True) if a != b]
    assert {b for _, b in moved} <= {which}


@given(st.floats(0.05, 0.9), st.floats(0.0, 0.99))
def test_a_growing_share_only_takes(share: float, more: float) -> None:
    larger = share + more * (1 - share)
    before, after = chosen(split(1 - share, share), 50), chosen(split(1 - larger, larger), 50)
    assert all(b == "1" for a, b in zip(before, after, strict=True) if a == "1")


def test_what_a_new_version_leaves_is_divided_in_proportion() -> None:
    def versions(*shares: float) -> list[Entry]:
        return [Entry(reference="r", folder=Path("/b"), version=str(i), share=s) for i, s in enumerate(shares)]

    assert [e.share for e in scaled(versions(0.75, 0.25), 0.4)] == pytest.approx([0.3, 0.1])
    assert [e.share for e in scaled(versions(0.0, 0.0), 1.0)] == [0.5, 0.5]
