"""Is a queue of our own still worth having? Ours beside BentoML's adaptive batching, on the same cores and bundle.

`python -m benchmarks.queue_choice` takes under four minutes and prints a table. The servers run one after another:
  ours    `service.app`; each item says in `timeout_ms` how long its caller waits
  stock   `benchmarks.peers.stock_bentoml` as shipped; it knows no deadline of an item and never refuses
  tuned   the same, told what BentoML can be told: one worker a core, and the caller's patience as `max_latency_ms`

All get the same texts at the same instants. The rates are parts of one peak, that of the first server named, or
`--peak`; a server's own peak is in the table. The load generator shares the cores with the server, as a neighbour
would; the table says how late it sent.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Any

import uvloop

from benchmarks import trace
from benchmarks.client import Client, Reply
from benchmarks.machine import machine
from benchmarks.playback import Outcome, one, play, saturate, summarise
from benchmarks.queue_table import table
from benchmarks.servers import Contender, Running, serving
from service.batching.cpus import usable_cpus
from service.config import Settings, find_bundles
from service.errors import BundleError
from service.tasks import family

SLO = 1.0
"""An answer later than this is no answer, and what every caller says it waits."""
GIVE_UP = 2.0
"""A caller who was told nothing leaves after this long."""
PARTS = {"light": 0.3, "heavy": 0.8, "overload": 2.0}
"""Of the peak."""
CROWD, ROUNDS = 32, 10
TEXTS = 2000
# Control characters: every check of form lets them pass, and the tokenizer finds nothing in them.
UNREADABLE = "\u0007\u0001"
STARTED = monotonic()
STOCK = "benchmarks.peers.stock_bentoml:Stock"


def contenders(cpus: int) -> dict[str, Contender]:
    tuned = {"PEER_WORKERS": str(cpus), "PEER_MAX_LATENCY_MS": f"{SLO * 1000:.0f}"}
    return {
        "ours": Contender("ours", "service.app:NLU"),
        "stock": Contender("stock", STOCK, wraps=True),
        "tuned": Contender("tuned", STOCK, tuned, wraps=True),
    }


class Scenario:
    """One server's turn: every phase with the same seed, and what it measured."""

    def __init__(self, contender: Contender, running: Running, name: str, texts: Sequence[str], seed: int) -> None:
        self.running = running
        self.seed = seed
        self.client = Client(running.url)
        self._path = f"/{name}"
        self._wraps = contender.wraps
        self._bodies = [self.body(text) for text in texts]

    def body(self, text: str) -> bytes:
        item = {"text": text, "timeout_ms": round(SLO * 1000)}
        return json.dumps({"items": [item]} if self._wraps else item).encode()

    async def ask(self, number: int) -> Reply:
        return await self.client.post(self._path, self._bodies[number % len(self._bodies)])

    async def warm_up(self) -> None:
        # BentoML's dispatcher learns from its first two dozen batches, one after another.
        await self.alone(40)
        await saturate(self.ask, 4, 1.0, GIVE_UP)

    async def peak(self, seconds: float) -> float:
        outcomes = await saturate(self.ask, CROWD, seconds, 10.0)
        return sum(o.kind == "200" and o.due + o.latency < seconds for o in outcomes) / seconds

    async def alone(self, requests: int = 10) -> list[Outcome]:
        """One caller who waits for each answer, and long."""
        return [await one(self.ask, number, monotonic(), 0.0, 20.0) for number in range(requests)]

    async def open_loop(self, phase: str, rate: float, seconds: float) -> dict[str, Any]:
        _say(f"  {phase}: {rate:.0f}/s for {seconds:.0f} s")
        schedule = trace.arrivals(rate, seconds, self.seed)
        before = self.running.cpu()
        outcomes = await play(schedule, self.ask, GIVE_UP)
        cpu = self.running.cpu() - before
        summary = summarise(outcomes, seconds, SLO)
        answered, good = summary["kinds"].get("200", 0), summary["goodput_per_s"] * seconds
        return summary | {"cpu_ms": cpu * 1000 / max(1, answered), "cpu_ms_good": cpu * 1000 / max(1.0, good)}

    async def isolation(self) -> dict[str, Any]:
        """Good requests and one unreadable one, all at once."""
        middle, unreadable = CROWD // 2, self.body(UNREADABLE)
        failed, culprit = 0, set()

        async def ask(number: int) -> Reply:
            return await (self.client.post(self._path, unreadable) if number == middle else self.ask(number))

        for _ in range(ROUNDS):
            outcomes = await play([0.0] * (CROWD + 1), ask, 10.0)
            culprit.add(outcomes.pop(middle).kind)
            failed += sum(o.kind != "200" for o in outcomes)
        return {"innocents": CROWD * ROUNDS, "failed": failed, "culprit": sorted(culprit)}

    async def run(self, rates: Mapping[str, float], seconds: float) -> dict[str, Any]:
        """Everything, in an order that keeps what a burst leaves behind out of the quieter phases."""
        await self.warm_up()
        found: dict[str, Any] = {"alone_ms": _median_ms(await self.alone())}
        for phase in ("light", "heavy"):
            found[phase] = await self.open_loop(phase, rates[phase], seconds * 0.4)
        found["isolation"] = await self.isolation()
        found["peak_per_s"] = await self.peak(seconds / 5)
        found["overload"] = await self.open_loop("overload", rates["overload"], seconds)
        (first,) = await self.alone(1)
        recovered = first.kind == "200"
        found["first_after_s"] = first.latency if recovered else None
        found["alone_after_ms"] = _median_ms(await self.alone()) if recovered else None
        self.client.close()
        return found


def _median_ms(outcomes: Sequence[Outcome]) -> float | None:
    """Of answers; a refusal is no quick one."""
    answered = [o.latency for o in outcomes if o.kind == "200"]
    return median(answered) * 1000 if answered else None


def _say(text: str) -> None:
    print(f"{monotonic() - STARTED:4.0f} s  {text}", file=sys.stderr, flush=True)


def measure_peak(contender: Contender, name: str, folder: Path, texts: Sequence[str], seconds: float) -> float:
    """The rate that a server answers in closed loop, after a warm-up that does not count."""
    _say(f"peak of {contender.name}")
    with serving(contender, name, folder) as running:
        scenario = Scenario(contender, running, name, texts, 0)

        async def peak() -> float:
            await scenario.warm_up()
            return await scenario.peak(seconds / 5)

        return uvloop.run(peak())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.queue_choice", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20.0, help="length of the overload; the rest is in proportion")
    parser.add_argument("--bundle", default="klue-ynat", help="a stored bundle that takes one text")
    parser.add_argument("--servers", default="ours,stock,tuned", help="which, in order; the first sets the rates")
    parser.add_argument("--peak", type=float, help="requests a second that count as 100 %%, instead of measuring")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="also write everything to this file")
    args = parser.parse_args()
    # A run that is told to end must still end its server.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    # Two cores, so that numbers of larger machines compare; children inherit them.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    every = contenders(usable_cpus())
    if unknown := [name for name in args.servers.split(",") if name not in every]:
        parser.error(f"no such server: {', '.join(unknown)}; there are {', '.join(every)}")
    chosen = [every[name] for name in args.servers.split(",")]
    try:
        ((name, bundle),) = find_bundles(Settings(models=args.bundle)).items()
    except BundleError as error:
        parser.error(str(error))
    if {field for field, f in family(bundle).Input.model_fields.items() if f.is_required()} != {"text"}:
        parser.error(f"{args.bundle} takes more than one text")
    texts = trace.texts(trace.example_texts(bundle.manifest.language), TEXTS, args.seed)
    report: dict[str, Any] = {"machine": machine("bentoml", "onnxruntime", "tokenizers", "uvloop")}

    peak = args.peak or measure_peak(chosen[0], name, bundle.folder, texts, args.seconds)
    rates = {phase: part * peak for phase, part in PARTS.items()}
    setup = {"bundle": name, "seed": args.seed, "seconds": args.seconds, "rates_per_s": rates}
    report["setup"] = setup | {"slo_s": SLO, "give_up_s": GIVE_UP, "concurrency": CROWD}
    report["servers"] = found = {}
    for contender in chosen:
        _say(f"{contender.name}: {contender.target} {' '.join(f'{k}={v}' for k, v in contender.settings.items())}")
        with serving(contender, name, bundle.folder) as running:
            scenario = Scenario(contender, running, name, texts, args.seed)
            found[contender.name] = uvloop.run(scenario.run(rates, args.seconds))
    _say("done")
    print(table(report["setup"], found))
    if args.json:
        args.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
