"""Settings from the environment, and what this machine allows.

Every setting is `NLU_<FIELD>`; docs/operating.md lists them. A name that is not here is refused.
"""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path
from typing import Annotated

import bentoml
from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from service.bundle import Bundle
from service.device import Device
from service.errors import BundleError, ConfigError

PREFIX = "NLU_"
STORE_LABEL = "clueserve"
"""Models in the BentoML store that carry this label are bundles."""

ROUTE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
RESERVED = {
    "v1",
    "v2",
    "models",
    "metrics",
    "livez",
    "readyz",
    "healthz",
    "docs.json",
    "schema.json",
    "static_content",
    "assets",
}


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix=PREFIX, case_sensitive=False, extra="forbid", frozen=True)

    models: Annotated[str, Field(description="what to serve: [alias=]bento-tag-or-folder, comma separated")] = ""
    device: Annotated[Device, Field(description="where graphs run; never falls back silently")] = "cpu"
    workers: Annotated[int, Field(ge=1, description="processes, each with all models in its memory")] = 1
    threads: Annotated[int, Field(ge=0, description="worker threads a process; 0 = its part of the usable CPUs")] = 0
    timeout_ms: Annotated[int, Field(ge=1, description="deadline of a request, which may ask for less")] = 60_000
    max_wait_ms: Annotated[int, Field(ge=1, description="refuse with 429 what is predicted to wait longer")] = 30_000
    take_ms: Annotated[float, Field(gt=0, description="most model time that a worker takes from one queue at once")] = (
        30.0
    )
    max_body_bytes: Annotated[int, Field(ge=1024, description="largest request body")] = 1 << 20
    max_text_chars: Annotated[int, Field(ge=1, description="longest text of one item")] = 100_000
    max_batch_items: Annotated[int, Field(ge=1, description="most items of one /batch request")] = 1000


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


def find_bundles(settings: Settings) -> dict[str, Bundle]:
    """Route name -> bundle, for what NLU_MODELS names, or for every bundle in the BentoML store if it names nothing."""
    if settings.models.strip():
        entries = [entry.strip() for entry in settings.models.split(",") if entry.strip()]
    else:
        stored = {m.tag.name for m in bentoml.models.list() if STORE_LABEL in m.info.labels}
        entries = [f"{name}={name}:latest" for name in sorted(stored)]
    found: dict[str, Bundle] = {}
    for entry in entries:
        alias, given, ref = entry.rpartition("=")
        bundle = _open(ref.strip())
        name = alias.strip() if given else bundle.manifest.name
        if name in found:
            raise ConfigError(f"NLU_MODELS names {name!r} twice; give one of them another alias")
        if name in RESERVED or not ROUTE.fullmatch(name):
            raise ConfigError(f"NLU_MODELS: {name!r} cannot be a route; use letters, digits, '-', '_' and '.'")
        found[name] = bundle
    if not found:
        raise ConfigError("no bundle to serve: export one into the BentoML store or name folders in NLU_MODELS")
    return found


def _open(ref: str) -> Bundle:
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


def usable_cpus(affinity: int | None = None, cpu_max: str | None = None) -> int:
    """CPUs that this process may really use: the lesser of its affinity and its cgroup's quota, at least 1.

    `cpu_max` is the text of cgroup v2's `cpu.max` ("200000 100000" or "max 100000"). ONNX Runtime's own default
    counts the host's cores and drowns a container in threads.
    """
    if affinity is None:
        affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if cpu_max is None:
        path = Path("/sys/fs/cgroup/cpu.max")
        cpu_max = path.read_text() if path.is_file() else "max"
    quota, _, period = cpu_max.partition(" ")
    if quota.strip() != "max":
        affinity = min(affinity, int(int(quota) / int(period or 100_000)))
    return max(1, affinity)


def worker_threads(settings: Settings, cpus: int) -> int:
    """Threads of one process that run models."""
    return settings.threads or max(1, cpus // settings.workers)
