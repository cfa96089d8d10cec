"""One peer's turn: installed, started, asked, measured, ended; or the reason why not."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.capacity import CROWD, Restless, capacity
from benchmarks.client import Client
from benchmarks.peers import process
from benchmarks.peers.install import SetupError, install
from benchmarks.peers.recipe import Environment, Recipe, at, body, filled
from benchmarks.run import Offer, Request, measure
from benchmarks.servers import ROOT, free_port

PART = 0.7
"""Of its own capacity: the load at which a server's p99 is compared."""


@dataclass(frozen=True)
class Contest:
    """What is the same for every peer."""

    work: Path
    checkpoint: Path
    texts: Sequence[str]
    labels: Sequence[str]
    """Of the first texts, from the fp32 bundle in this process: what every server should answer."""
    cpus: Sequence[int]
    seconds: float
    slo_ms: float
    seed: int

    def turn(self, name: str, recipe: Recipe, bundle: Path) -> dict[str, Any]:
        """What was measured of one peer; `error` says why there is nothing, or not everything."""
        found: dict[str, Any] = {"name": name, "title": recipe.title, "error": None}
        log = self.work / "logs" / f"{name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        try:
            python = Path(sys.executable)
            if recipe.environment:
                python = install(recipe.environment, self.work / "venvs") / "bin/python"
                found["versions"] = versions(recipe.environment, self.work / "venvs")
            with tempfile.TemporaryDirectory(prefix="peer-") as run:
                places = self._places(python, bundle, Path(run))
                for file, text in recipe.files.items():
                    (Path(run) / file).parent.mkdir(parents=True, exist_ok=True)
                    (Path(run) / file).write_text(filled(text, places), encoding="utf-8")
                self._serve(recipe, places, log, found)
        except (SetupError, Restless) as error:
            found["error"] = str(error)
        except Exception as error:  # whatever a foreign server answers must not end the others' turns
            found["error"] = f"{type(error).__name__}: {error}, see {log}"
        return found

    def _places(self, python: Path, bundle: Path, run: Path) -> dict[str, object]:
        return {
            "model": self.checkpoint,
            "graph": self.checkpoint / "model.onnx",
            "bundle": bundle,
            "python": python,
            "bin": python.parent,
            "run": run,
            "root": ROOT,
            "port": free_port(),
            "cpus": len(self.cpus),
        }

    def _serve(self, recipe: Recipe, places: Mapping[str, object], log: Path, found: dict[str, Any]) -> None:
        """Start the server and fill in what is measured, step by step, so that what is known outlives a failure."""
        environment = clean_environment() | {"HF_HUB_OFFLINE": "1"}
        environment |= {key: filled(value, places) for key, value in recipe.env.items()}
        command = [filled(word, places) for word in recipe.command]
        cwd, port = Path(filled(recipe.cwd, places)), int(str(places["port"]))
        with process.running(command, cwd, environment, port, self.cpus, log) as server:
            bodies = [body(recipe.body, text) for text in self.texts]
            found["start_s"] = round(process.wait(server, recipe.path, bodies[0], recipe.start_s, log), 2)
            answers = [at(server.ask(recipe.path, sent), recipe.label) for sent in bodies[: len(self.labels)]]
            equal = [answer == label for answer, label in zip(answers, self.labels, strict=True)]
            found["labels_equal"] = sum(equal) / len(equal)
            uvloop.run(self._load(found, server, [(recipe.path, sent) for sent in bodies]))

    async def _load(self, found: dict[str, Any], server: process.Server, requests: Sequence[Request]) -> None:
        name = str(found["name"])
        offer = Offer(self.seconds, callers=CROWD, slo_ms=self.slo_ms, seed=self.seed)
        async with Client(server.url) as client:
            peak = await measure(f"{name}, {CROWD} callers", client, requests, offer, server, bar=True)
            found |= {"peak": peak, "cpu_ms": peak["server"]["cpu_ms_per_answer"], "rss_mb": peak["server"]["rss_mb"]}
            found["capacity"] = await capacity(
                name,
                client,
                requests,
                server,
                seconds=self.seconds,
                slo_ms=self.slo_ms,
                seed=self.seed,
                confirmations=1,
                bar=True,
            )
            found["capacity_per_s"] = found["capacity"]["capacity_per_s"]
            if rate := PART * found["capacity_per_s"]:
                offer = Offer(self.seconds, rate=rate, slo_ms=self.slo_ms, seed=self.seed)
                found["at_70"] = await measure(f"{name}, {rate:.0f}/s", client, requests, offer, server, bar=True)


def clean_environment() -> dict[str, str]:
    """This process's variables without those that would reach into a server."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("NLU_", "PEER_", "BENTOML_", "PYTHON"))}


def versions(environment: Environment, folder: Path) -> dict[str, str]:
    """Of the packages that the recipe names, those that are installed."""
    named = {_canonical(word) for word in re.findall(r"[A-Za-z][\w.-]*", " ".join(environment.install))}
    sites = [str(path) for path in (folder / environment.name).glob("lib/python*/site-packages")]
    return {d.name: d.version for d in distributions(path=sites) if _canonical(d.name) in named}


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
