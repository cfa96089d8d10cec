"""What processes tell each other: wishes with revisions, signs of life, losses counted once; and who watches."""

from __future__ import annotations

import logging
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, sleep

import pytest
from kit import no_files

from service.bundle import Bundle
from service.config import find_served
from service.errors import BundleError, Conflict
from service.process import supervisor
from service.process.board import VARIABLE, Board, Entry, Model, Pulse, Status
from service.process.supervisor import alive, allow_files, look, watch

GONE = 2**22 + 1  # above the largest process number


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return Board(tmp_path)


@pytest.fixture
def child() -> Iterator[int]:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process.pid
    process.kill()
    process.communicate()


def model(*shares: float, loaded: bool = True) -> Model:
    versions = (Entry(reference=f"r{i}", folder=Path(f"/b/{i}"), version=str(i), share=s) for i, s in enumerate(shares))
    return Model(versions=tuple(versions), loaded=loaded)


def test_every_wish_has_a_higher_revision_and_is_read_back_as_it_was(board: Board) -> None:
    first = {"topic": model(1.0)}
    assert board.want(first) == 1
    assert (board.desired().revision, board.desired().models) == (1, first)
    second = {"topic": model(0.25, 0.75), "ner": model(1.0, loaded=False)}
    assert board.want(second) == 2
    assert board.desired().models == second
    assert second["topic"].primary.version == "1"
    assert second["ner"].wanted == ()


@pytest.mark.parametrize("suite", ["klue/ynat", "cblue/cmeie"])
def test_a_worker_that_comes_later_has_the_routes_of_a_bundle_that_is_gone(
    board: Board, bundle_of: Callable[[str], Path], tmp_path: Path, suite: str, caplog: pytest.LogCaptureFixture
) -> None:
    folders = {name: shutil.copytree(bundle_of(suite), tmp_path / name) for name in ("gone", "there")}
    entries = {n: Entry(reference=n, folder=f, version=Bundle(f).version) for n, f in folders.items()}
    bundles = {name: Bundle(folder) for name, folder in folders.items()}
    board.want({name: Model(versions=(entry,), loaded=name == "there") for name, entry in entries.items()})
    board.remember(bundles)
    shutil.rmtree(folders["gone"])
    found = find_served(Board(board.folder))
    assert {n: b.manifest for n, b in found.items()} == {n: b.manifest for n, b in bundles.items()}
    assert {n: b.precision for n, b in found.items()} == {n: b.precision for n, b in bundles.items()}
    assert found["gone"].version == entries["gone"].version or found["gone"].stages
    assert found["there"].folder == folders["there"]
    assert [r.getMessage() for r in caplog.records] == [
        f"gone: {folders['gone']} is not a bundle: bundle.json is missing"
    ]
    with pytest.raises(BundleError):
        board.remembered("never seen")


def test_what_is_remembered_looks_used(board: Board, bundle_of: Callable[[str], Path]) -> None:
    board.want({"topic": model(1.0)})
    board.remember({"topic": Bundle(bundle_of("klue/ynat"))})
    files = [path for path in board.folder.rglob("*") if path.is_file()]
    assert len(files) == 2
    for path in files:
        os.utime(path, (0, 0))
    board.keep()
    assert all(path.stat().st_mtime for path in files)


def test_two_changes_at_once_are_refused(board: Board) -> None:
    with board.changing(), pytest.raises(Conflict), Board(board.folder).changing():
        raise AssertionError
    with board.changing():
        pass


def test_a_board_is_found_through_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert Board.find() is None
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    found = Board.find()
    assert found is not None
    assert found.folder == tmp_path
    monkeypatch.setenv(VARIABLE, str(tmp_path / "gone"))
    assert Board.find() is None


def test_a_worker_without_a_status_has_done_nothing_yet(board: Board) -> None:
    board.beat(1, None)
    board.beat(2, 7.5)
    board.post(2, Status(ready=True, seen=3, problems={"topic": {"1": "broken"}}))
    assert board.statuses() == {1: Status(), 2: Status(ready=True, seen=3, problems={"topic": {"1": "broken"}})}
    pulses = board.pulses()
    assert (pulses[1].running, pulses[2].running) == (0.0, 7.5)
    assert 0 <= monotonic() - pulses[1].beat < 60
    board.leave(2)
    assert set(board.statuses()) == {1}


def test_a_worker_without_free_descriptors_still_beats(board: Board) -> None:
    board.beat(1, None)
    before = board.pulses()[1].beat
    with no_files():
        board.beat(1, 7.5)
    assert board.pulses()[1].beat > before
    assert board.pulses()[1].running == 7.5


def test_a_pulse_that_was_tidied_up_is_there_again_and_an_end_leaves_no_descriptor(board: Board) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for pid in (1, 2):
        board.beat(pid, None)
        for pulse in board.folder.rglob("*.pulse"):
            pulse.unlink()
        board.beat(pid, None)
        assert set(board.pulses()) == {pid}
        board.leave(pid)
    assert len(os.listdir("/proc/self/fd")) == before


def test_who_watches_goes_on_when_it_cannot_look(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[float] = []

    def fail(_: object, __: float, now: float) -> None:
        looks.append(now)
        if len(looks) == 3:
            shutil.rmtree(board.folder)
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(supervisor, "PERIOD", 0.01)
    monkeypatch.setattr(supervisor, "look", fail)
    board.want({})
    watch(board, 60)
    assert len(looks) == 3


def test_as_many_files_are_allowed_as_may_be_and_too_few_are_told(caplog: pytest.LogCaptureFixture) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
        with caplog.at_level(logging.WARNING, logger="bentoml.clueserve"):
            allow_files(600)
            assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
            assert caplog.records == []
            allow_files(hard)
        (told,) = [record.getMessage() for record in caplog.records]
        assert told.startswith(f"a process may have {hard} files open, but NLU_MAX_CONNECTIONS is {hard}")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_last_worker_to_stop_accepting_knows_it(board: Board) -> None:
    for pid in (1, 2, 3):
        board.beat(pid, None)
    assert not board.last_out(2)
    board.leave(3)
    assert board.last_out(1)


def test_a_worker_that_is_gone_is_lost_and_counted_once(board: Board, child: int) -> None:
    board.beat(GONE, None)
    board.beat(child, None)
    look(board, patience=60, now=monotonic())
    assert set(board.pulses()) == {child}
    assert list(board.count_lost()) == ["crashed"]
    assert list(board.count_lost()) == []


@pytest.mark.parametrize("pulse", [Pulse(-100, 0), Pulse(0, -100)], ids=["silent", "in one run"])
def test_a_worker_that_hangs_is_killed_and_lost(
    board: Board, child: int, pulse: Pulse, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = monotonic()
    hung = Pulse(now + pulse.beat, now + pulse.running if pulse.running else 0.0)
    board.beat(child, None)
    monkeypatch.setattr(board, "pulses", lambda: {child: hung})
    look(board, patience=200, now=now)
    assert alive(child)
    look(board, patience=60, now=now)
    until = monotonic() + 20
    while alive(child):
        assert monotonic() < until
        sleep(0.01)
    assert list(board.count_lost()) == ["hung"]


def test_only_own_children_are_alive(child: int) -> None:
    assert alive(child)
    assert not alive(os.getpid())
    assert not alive(GONE)
