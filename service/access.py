"""Keys: who may ask, for what and how often. The file holds hashes; nothing here knows HTTP.

A key is `clue_<id>_<64 hex digits>`: 256 random bits, so that one SHA-256 is all that its hash needs. Slow hashes such
as bcrypt protect what people choose and dictionaries hold; here they would only cost every request 100 ms.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import math
import secrets
from collections.abc import Callable, Container
from contextvars import ContextVar
from pathlib import Path
from time import monotonic, time
from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, model_validator

from service.errors import ConfigError, Forbidden, RateLimited, Unauthorized

log = logging.getLogger("bentoml.clueserve")

ID = r"[a-z0-9][a-z0-9-]{0,31}"
LONGEST = 128
"""Characters of what may be a key: nobody makes us hash a megabyte."""
RECHECK = 1.0
"""Seconds between looks at the file."""
UNKNOWN = bytes(32)
"""Compared where there is no such id, so that an unknown id takes as long as a wrong secret."""

Role = Literal["caller", "metrics", "admin"]


class Entry(BaseModel):
    """One key as the file has it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Annotated[str, Field(pattern=f"^{ID}$", description="named in metrics and logs")]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    role: Annotated[Role, Field(description="`caller` asks models, `metrics` reads /metrics, `admin` does everything")]
    bundles: Annotated[list[str] | None, Field(description="the only models it may ask; null = all")] = None
    # Between what can be reckoned with: a bucket of an infinite rate, or one of nearly nothing, has no time to wait.
    rate: (
        Annotated[float, Field(ge=1e-6, le=1e9, allow_inf_nan=False, description="requests a second over all workers")]
        | None
    ) = None
    burst: Annotated[int, Field(ge=1, le=10**9, description="requests at once; by default a second's worth")] | None = (
        None
    )
    expires: AwareDatetime | None = None

    @model_validator(mode="after")
    def _burst_of_a_rate(self) -> Entry:
        if self.burst is not None and self.rate is None:
            raise ValueError("a burst needs a rate")
        return self


class File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    keys: list[Entry]

    @model_validator(mode="after")
    def _unique(self) -> File:
        if len({entry.id for entry in self.keys}) < len(self.keys):
            raise ValueError("two keys have the same id")
        return self


class Bucket:
    """Tokens that fill at `rate` a second up to `burst`; a request takes one."""

    def __init__(self, rate: float, burst: float) -> None:
        self.rate, self.burst = rate, burst
        self._tokens, self._at = burst, -math.inf

    def take(self, now: float) -> float:
        """0 if a token was there, else the seconds until one will be."""
        self._tokens = min(self.burst, self._tokens + (now - self._at) * self.rate)
        self._at = now
        if self._tokens < 1:
            return (1 - self._tokens) / self.rate
        self._tokens -= 1
        return 0.0


class Key:
    """A key at work in one worker, which has an equal part of its rate."""

    def __init__(self, entry: Entry, workers: int) -> None:
        self.entry = entry
        self.id = entry.id
        self.digest = bytes.fromhex(entry.sha256)
        self.expires = math.inf if entry.expires is None else entry.expires.timestamp()
        self.bundles = None if entry.bundles is None else frozenset(entry.bundles)
        self.bucket: Bucket | None = None
        if entry.rate is not None:
            burst = entry.burst or math.ceil(entry.rate)
            # A bucket that holds less than one token would never let anybody through.
            self.bucket = Bucket(entry.rate / workers, max(1.0, burst / workers))

    def may_ask(self, name: str) -> bool:
        """Whether it may ask the model that is served by this name."""
        return self.entry.role != "metrics" and (self.bundles is None or name in self.bundles)

    def require(self, name: str, field: str | None = None) -> None:
        """Forbidden if it may not ask this model, which `field` of the request names."""
        if not self.may_ask(name):
            raise Forbidden(f"this key may not ask {name}", field=field)

    def spend(self, now: float) -> None:
        """Count a request; RateLimited if it comes too soon."""
        if self.bucket and (wait := self.bucket.take(now)):
            raise RateLimited("too many requests with this key", math.ceil(wait))


class Keys:
    """The keys of a file, which is read again when it changes.

    A broken file ends the start with ConfigError; later it is logged and the keys stay as they are.
    """

    def __init__(self, path: Path, workers: int = 1, clock: Callable[[], float] = monotonic) -> None:
        self._path = path
        self._workers = workers
        self._clock = clock
        self._stamp = self._stat()
        self._keys = self._read()
        self._problem: str | None = None
        self._next = clock() + RECHECK

    def find(self, presented: str) -> Key:
        """The key whose text this is; Unauthorized if there is none, or its time is over."""
        if (now := self._clock()) >= self._next:
            self._next = now + RECHECK
            self._refresh()
        key = self._keys.get(_id(presented))
        known = UNKNOWN if key is None else key.digest
        if not hmac.compare_digest(_digest(presented), known) or key is None:
            raise Unauthorized("there is no such key")
        if time() >= key.expires:
            raise Unauthorized("the key has expired")
        return key

    def _refresh(self) -> None:
        try:
            # Before it is read: what is written meanwhile is seen the next time.
            stamp = self._stat()
            keys = None if stamp == self._stamp else self._read()
        except ConfigError as error:
            # Tried again each time, since it may have been a fault of the moment, and told once.
            if self._problem != (problem := str(error)):
                log.error("%s; the keys stay as they were", problem)
            self._problem = problem
            return
        self._stamp, self._problem = stamp, None
        if keys is None:
            return
        # A key that did not change keeps what it has used of its rate.
        self._keys = {
            name: old if (old := self._keys.get(name)) and old.entry == new.entry else new for name, new in keys.items()
        }
        log.info("%s was read again: %d keys", self._path, len(self._keys))

    def _stat(self) -> tuple[int, ...] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None  # reading it will say why
        return found.st_ino, found.st_size, found.st_mtime_ns

    def _read(self) -> dict[str, Key]:
        return {entry.id: Key(entry, self._workers) for entry in read(self._path).keys}


def read(path: Path) -> File:
    """The file's entries; ConfigError names everything that is wrong with it."""
    try:
        return File.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'file'}: {e['msg']}" for e in error.errors())
        raise ConfigError(f"{path}: {problems}") from None


def make(name: str) -> tuple[str, str]:
    """A new key with this id and the hash of it."""
    text = f"clue_{name}_{secrets.token_hex(32)}"
    return text, _digest(text).hex()


def _id(presented: str) -> str:
    return presented.removeprefix("clue_").rpartition("_")[0]


def _digest(presented: str) -> bytes:
    return hashlib.sha256(presented[:LONGEST].encode()).digest()


CALLER: ContextVar[Key | None] = ContextVar("caller", default=None)
"""The key that the running task's request came with; None where no keys are configured."""


def named(path: str, models: Container[str]) -> list[str]:
    """The models that a path is about, whatever the protocol: their names stand between its slashes."""
    if path.startswith("/assets/"):  # files, which are called what they are
        return []
    return [part for part in path.split("/") if part in models]


def may_ask(name: str) -> bool:
    """Whether the caller may know of and ask the model that is served by this name."""
    key = CALLER.get()
    return key is None or key.may_ask(name)


def require(name: str, field: str | None = None) -> None:
    """Forbidden if the caller may not ask this model, which `field` of the request names."""
    if key := CALLER.get():
        key.require(name, field)
