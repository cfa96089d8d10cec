"""Settings from the environment, and what this machine allows.

Every setting is `NLU_<FIELD>`; docs/operating.md lists them. A name that is not here is refused.
"""

from __future__ import annotations

import difflib
import logging
import os
import re
from pathlib import Path
from typing import Annotated

import bentoml
from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from service.bundle import Bundle, version_of
from service.edge import cors
from service.errors import BundleError, ConfigError
from service.graph.device import Device
from service.observability.logs import Form, Which
from service.process.board import Board, Entry, Model

log = logging.getLogger("bentoml.clueserve")

PREFIX = "NLU_"
STORE_LABEL = "clueserve"
"""Models in the BentoML store that carry this label are bundles."""

SHARED = re.compile(r"(.+)@(0|0?\.[0-9]+)")
"""A reference and the share of the items that its bundle answers."""

ROUTE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
RESERVED = {
    # What begins a path.
    "v1",
    "v2",
    "models",
    "parse",
    "tei",
    "predict",
    "rerank",
    "info",
    "health",
    "metrics",
    "livez",
    "readyz",
    "healthz",
    "docs.json",
    "schema.json",
    "static_content",
    "assets",
    # What stands beside a name in one.
    "batch",
    "index",
    "infer",
    "live",
    "load",
    "ready",
    "repository",
    "session",
    "unload",
    "versions",
}
"""Words of our own paths: whatever the protocol, a name between slashes is a model's."""


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix=PREFIX, case_sensitive=False, extra="forbid", frozen=True)

    models: Annotated[str, Field(description="what to serve: [alias=]bento-tag-or-folder, comma separated")] = ""
    device: Annotated[Device, Field(description="where graphs run; never falls back silently")] = "cpu"
    workers: Annotated[int, Field(ge=1, description="processes, each with all models in its memory")] = 1
    threads: Annotated[int, Field(ge=0, description="worker threads a process; 0 = its part of the usable CPUs")] = 0
    timeout_ms: Annotated[int, Field(ge=1, description="deadline of a request, which may ask for less")] = 60_000
    max_wait_ms: Annotated[int, Field(ge=1, description="refuse with 429 what is predicted to wait longer")] = 30_000
    take_ms: Annotated[float, Field(gt=0, description="most model time that a worker takes from one queue at once")] = (
        60.0
    )
    max_body_bytes: Annotated[int, Field(ge=1024, description="largest request body")] = 1 << 20
    max_text_chars: Annotated[int, Field(ge=1, description="longest text of one item")] = 100_000
    max_batch_items: Annotated[int, Field(ge=1, description="most items of one /batch request")] = 1000
    max_connections: Annotated[int, Field(ge=1, description="connections of a process; 503 on one more")] = 10_000
    read_timeout_ms: Annotated[int, Field(ge=1, description="time for a head, and for a body; then 408")] = 30_000
    drain_ms: Annotated[int, Field(ge=0, description="after SIGTERM, answer but be not ready for so long")] = 1000
    grace_ms: Annotated[int, Field(ge=1000, description="after SIGTERM, be gone after so long, come what may")] = 25_000
    hang_ms: Annotated[
        int, Field(ge=1000, description="replace a worker that is silent, or in one run, for so long")
    ] = 120_000
    admin: Annotated[bool, Field(description="let everybody load and unload models; with keys, administrators may")] = (
        False
    )
    log_format: Annotated[Form, Field(description="log lines as text or as JSON")] = "text"
    log_requests: Annotated[Which, Field(description="a line for each request: none, what failed, or all")] = "errors"

    keys_file: Annotated[Path | None, Field(description="keys that callers must have; without, everybody may ask")] = (
        None
    )
    cors_origins: Annotated[str, Field(description="origins whose pages may ask, comma separated")] = ""

    @field_validator("cors_origins")
    @classmethod
    def _origins(cls, text: str) -> str:
        cors.origins(text)
        return text

    def limits(self) -> dict[str, int]:
        """What a client must know to keep its requests small enough."""
        return self.model_dump(include={"max_batch_items", "max_body_bytes", "max_text_chars"})


def load_settings() -> Settings:
    """Read the settings; ConfigError names every variable that is unknown or has a value that cannot be."""
    known = [PREFIX + name.upper() for name in Settings.model_fields]
    problems = []
    for key in os.environ:
        if key.upper().startswith(PREFIX) and key not in known:
            close = difflib.get_close_matches(key, known, 1)
            problems.append(f"{key} is not a setting" + (f"; did you mean {close[0]}?" if close else ""))
    try:
        settings = Settings()
    except ValidationError as error:
        problems += [f"{PREFIX}{str(e['loc'][0]).upper()}: {e['msg']}" for e in error.errors()]
    if problems:
        raise ConfigError("; ".join(problems))
    return settings


def find_models(settings: Settings) -> dict[str, Model]:
    """Route name -> its versions, for what NLU_MODELS names, or for every bundle in the BentoML store."""
    if settings.models.strip():
        entries = [entry.strip() for entry in settings.models.split(",") if entry.strip()]
    else:
        stored = {m.tag.name for m in bentoml.models.list() if STORE_LABEL in m.info.labels}
        entries = [f"{name}={name}:latest" for name in sorted(stored)]
    found: dict[str, list[tuple[Entry, bool]]] = {}
    for entry in entries:
        alias, given, rest = entry.rpartition("=")
        shared = SHARED.fullmatch(rest)
        ref, share = (shared[1], float(shared[2])) if shared else (rest, 0.0)
        bundle = open_reference(ref.strip())
        name = alias.strip() if given else bundle.manifest.name
        if name in RESERVED or not ROUTE.fullmatch(name):
            raise ConfigError(
                f"NLU_MODELS: {name!r} cannot be a route; use letters, digits, '-', '_' and '.', "
                "and none of the words of other paths"
            )
        folder = bundle.folder.resolve()
        version = Entry(reference=ref.strip(), folder=folder, version=version_of(folder), share=share)
        found.setdefault(name, []).append((version, bool(shared)))
    if not found:
        raise ConfigError("no bundle to serve: export one into the BentoML store or name folders in NLU_MODELS")
    return {name: _model(name, versions) for name, versions in found.items()}


def _model(name: str, versions: list[tuple[Entry, bool]]) -> Model:
    """Versions of one name: one of them has no share and gets what the others leave."""
    rest = [entry for entry, shared in versions if not shared]
    left = 1.0 - sum(entry.share for entry, _ in versions)
    if len(rest) != 1 or left < 0:
        raise ConfigError(
            f"NLU_MODELS names {name!r} twice; give one of them another alias, or all but one a share of the "
            f"items, together at most 1, as in {name}=REFERENCE@0.1"
        )
    families = {Bundle(entry.folder).manifest.family for entry, _ in versions}
    if len({entry.version for entry, _ in versions}) < len(versions) or len(families) > 1:
        raise ConfigError(f"NLU_MODELS: versions of {name!r} must be different bundles of one family")
    entries = (entry if shared else entry.model_copy(update={"share": left}) for entry, shared in versions)
    return Model(versions=tuple(entries))


def find_bundles(settings: Settings) -> dict[str, Bundle]:
    """Route name -> the bundle that answers most of its items."""
    return {name: Bundle(model.primary.folder) for name, model in find_models(settings).items()}


def find_served(board: Board) -> dict[str, Bundle]:
    """Route name -> the bundle that its routes are made from, for a worker.

    A bundle that cannot be read any more ends no worker: its model fails alone, when it is loaded.
    """
    found = {}
    for name, model in board.desired().models.items():
        try:
            found[name] = open_entry(model.primary)
        except BundleError as error:
            log.error("%s: %s", name, error)
            found[name] = board.remembered(name)
    return found


def open_entry(entry: Entry) -> Bundle:
    """The bundle of a version; BundleError if another one lies there by now."""
    bundle = Bundle(entry.folder)
    if bundle.version != entry.version:
        raise BundleError(
            f"{entry.folder} is version {bundle.version} by now, not {entry.version}: load it, or start again"
        )
    return bundle


def open_reference(ref: str) -> Bundle:
    """A bundle by folder (it holds a path separator) or by BentoML tag."""
    if os.sep in ref:
        return Bundle(Path(ref))
    try:
        return Bundle(Path(bentoml.models.get(ref).path))
    except BundleError:
        raise
    except bentoml.exceptions.BentoMLException as error:
        raise ConfigError(
            f"NLU_MODELS: {ref!r} is not in the BentoML store ({error}); folders are written with a '/'"
        ) from None
    except (ValueError, OSError) as error:
        raise ConfigError(f"NLU_MODELS: {ref!r}: {error}; folders are written with a '/'") from None


def worker_threads(settings: Settings, cpus: int) -> int:
    """Threads of one process that run models."""
    return settings.threads or max(1, cpus // settings.workers)
