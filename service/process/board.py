"""What the processes of one server tell each other: which versions are wanted, and how each worker is doing.

A folder with `desired.json`, replaced as a whole by whoever changes it, the manifests of the first start, and two files
a worker: its pulse, written in place so that a full disk does not stop it, and its status. The process that starts the
workers makes the folder and puts its path into their environment.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from pydantic import BaseModel

from service.bundle import FILE, STORE_FILE, Bundle
from service.errors import Conflict

VARIABLE = "CLUESERVE_BOARD"
PULSE = struct.Struct("dd")


class Entry(BaseModel, frozen=True):
    """One version of a model: where it lies and what part of the items it answers. A share of 0 is loaded, no more."""

    reference: str
    folder: Path
    version: str
    share: float = 1.0


class Model(BaseModel, frozen=True):
    """What one name serves. Unloaded, it keeps its versions, so that it can be loaded again."""

    versions: tuple[Entry, ...]
    loaded: bool = True

    @property
    def wanted(self) -> tuple[Entry, ...]:
        return self.versions if self.loaded else ()

    @property
    def primary(self) -> Entry:
        """The version that answers most."""
        return max(self.versions, key=lambda entry: entry.share)


class Desired(BaseModel, frozen=True):
    """What every worker brings itself to. Each change has a higher revision."""

    revision: int
    models: dict[str, Model]


class Status(BaseModel, frozen=True):
    """What a worker says of itself.

    `seen`: the revision that it has finished with, whether or not all of it could be done. `problems`: why versions
    could not be loaded, by name and version.
    """

    ready: bool = False
    seen: int = 0
    problems: dict[str, dict[str, str]] = {}


class Pulse(NamedTuple):
    """A worker's last sign of life, and since when its longest model run goes on (0: none), on the monotonic clock."""

    beat: float
    running: float


class Board:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._desired, self._workers, self._lost = folder / "desired.json", folder / "workers", folder / "lost"
        self._known = folder / "known"
        self._pulses: dict[int, int] = {}  # process -> descriptor
        for place in (self._workers, self._lost, self._known):
            place.mkdir(exist_ok=True)

    @classmethod
    def make(cls) -> Board:
        """A new board, for this process and those that it starts."""
        folder = tempfile.mkdtemp(prefix="clueserve-board-")
        os.environ[VARIABLE] = folder
        return cls(Path(folder))

    @classmethod
    def find(cls) -> Board | None:
        """The board of the process that started this one."""
        folder = os.environ.get(VARIABLE)
        return cls(Path(folder)) if folder and Path(folder).is_dir() else None

    def desired(self) -> Desired:
        return Desired.model_validate_json(self._desired.read_bytes())

    def keep(self) -> None:
        """Look used: whatever tidies up folders for temporary files must not take this one."""
        for path in (self._desired, *self._known.rglob("*")):
            os.utime(path)

    def remember(self, bundles: Mapping[str, Bundle]) -> None:
        """Keep the manifests of what is served: a worker that comes later may not find a bundle, but has its routes."""
        for name, bundle in bundles.items():
            _copy(bundle, self._known / name / bundle.version)

    def remembered(self, name: str) -> Bundle:
        """A bundle of the first start without its files."""
        return Bundle(next((self._known / name).glob("*"), self._known / name))

    def want(self, models: Mapping[str, Model]) -> int:
        """Ask all workers for these models; the revision of that wish. Call it within `changing`."""
        revision = self.desired().revision + 1 if self._desired.exists() else 1
        self._write(self._desired, Desired(revision=revision, models=dict(models)))
        return revision

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Nobody else changes what is wanted meanwhile; Conflict if somebody does already."""
        with (self.folder / "lock").open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Conflict("another change is under way; ask again when it is done") from None
            yield

    def beat(self, pid: int, running: float | None) -> None:
        """A worker's sign of life. Its file stays open: who has no descriptor to spare lives all the same."""
        file = self._pulses.get(pid)
        if file is not None and not os.fstat(file).st_nlink:  # somebody tidied up
            self._shut(pid)
            file = None
        if file is None:
            file = os.open(self._workers / f"{pid}.pulse", os.O_WRONLY | os.O_CREAT, 0o600)
            self._pulses[pid] = file
        os.pwrite(file, PULSE.pack(monotonic(), running or 0.0), 0)

    def pulses(self) -> dict[int, Pulse]:
        """The last signs of life by process number, of all that neither ended nor were declared lost."""
        found = {}
        for path in self._workers.glob("*.pulse"):
            with suppress(FileNotFoundError, struct.error):  # it ended, or begins, just now
                found[int(path.stem)] = Pulse(*PULSE.unpack(path.read_bytes()))
        return found

    def post(self, pid: int, status: Status) -> None:
        self._write(self._workers / f"{pid}.json", status)

    def statuses(self) -> dict[int, Status]:
        """What the workers that are there said last; nothing yet is an empty status."""
        found = {}
        for pid in self.pulses():
            try:
                found[pid] = Status.model_validate_json((self._workers / f"{pid}.json").read_bytes())
            except FileNotFoundError:
                found[pid] = Status()
        return found

    @property
    def ending(self) -> bool:
        """Whether all workers are asked to end, so that none is replaced."""
        return (self.folder / "ending").exists()

    def end(self) -> None:
        (self.folder / "ending").touch()

    def last_out(self, pid: int) -> bool:
        """A worker accepts nothing any more; whether it is the last of those that are there."""
        with (self.folder / "door").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            (self._workers / f"{pid}.out").touch()
            return all((self._workers / f"{other}.out").exists() for other in self.pulses())

    def leave(self, pid: int) -> None:
        """A worker that ends as it should."""
        self._shut(pid)
        for ending in ("pulse", "json", "out"):
            (self._workers / f"{pid}.{ending}").unlink(missing_ok=True)

    def lose(self, pid: int, cause: str) -> None:
        """Declare a worker lost; some other worker counts it."""
        self.leave(pid)
        (self._lost / f"{pid}.{cause}").touch()

    def count_lost(self) -> Iterator[str]:
        """Causes of losses that no other worker has counted."""
        for path in self._lost.iterdir():
            with suppress(FileNotFoundError):
                path.unlink()
                yield path.suffix[1:]

    def _shut(self, pid: int) -> None:
        if (file := self._pulses.pop(pid, None)) is not None:
            os.close(file)

    def _write(self, path: Path, model: BaseModel) -> None:
        new = path.with_suffix(f".{os.getpid()}.new")
        new.write_text(model.model_dump_json(), encoding="utf-8")
        new.replace(path)


def _copy(bundle: Bundle, target: Path) -> None:
    target.mkdir(parents=True)
    for name in (FILE, STORE_FILE):  # the second says how its version is called
        if (bundle.folder / name).is_file():
            shutil.copyfile(bundle.folder / name, target / name)
    for stage, part in bundle.stages.items():
        _copy(part, target / stage)
