"""What each command saves, as far as the page shows it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field, RootModel

from benchmarks.pages.run_shapes import Capacity, Run, Shape


class Job(Shape):
    name: str
    items: int
    answered: int
    errors: dict[str, int]
    seconds: float
    items_per_s: float
    requests: int
    in_flight: int
    cpu_ms_per_item: float | None
    rss_mb: float | None


class Offline(Shape):
    jobs: list[Job]


class Way(Shape):
    way: str
    threads: int
    cpu_ms: float
    wall_ms: float
    items_per_s: float


class Floor(Shape):
    """`benchmarks.limit.measure`."""

    name: str
    suite: str
    precision: str
    items: int
    tokens_per_item: float
    ways: list[Way] = Field(min_length=1)

    @property
    def cpu_ms(self) -> float:
        """The least CPU milliseconds an item on one thread."""
        return min(way.cpu_ms for way in self.ways if way.threads == min(w.threads for w in self.ways))


class Limit(RootModel[list[Floor]]):
    pass


class Peer(Shape):
    """`benchmarks.peers.contest.Contest.turn`: what was reached before `error`."""

    name: str
    title: str
    error: str | None
    versions: dict[str, str] = {}
    start_s: float | None = None
    labels_equal: float | None = None
    peak: Run | None = None
    cpu_ms: float | None = None
    rss_mb: float | None = None
    capacity: Capacity | None = None
    capacity_per_s: float | None = None
    at_70: Run | None = None

    @property
    def ours(self) -> bool:
        return self.name == "ours" or self.name.startswith("ours-")


class Peers(Shape):
    model: str
    cpus: list[int]
    floors: dict[str, Floor]
    peers: list[Peer]


class Precision(Shape):
    """`benchmarks.frontier.measure`, a row; shares in percent."""

    precision: str
    ms: float
    of_fp32: float
    mb: float
    passes: bool
    labels_equal: float
    records_equal: float
    scores: dict[str, tuple[float, float]]
    batch_change: float | None


class Precisions(Shape):
    precisions: list[Precision]


class Frontier(RootModel[dict[str, Precisions]]):
    pass


class Claim(Shape):
    """`benchmarks.proof.claims.verdicts`."""

    text: str
    value: float
    bound: str
    kept: bool


class Proof(Shape):
    claims: list[Claim]
    runs: list[Run]


class Sample(Shape):
    """`benchmarks.soak.watch.Sample`, as far as it is shown."""

    seconds: float
    requests: int
    rss_mb: float
    files: int
    threads: int
    processes: int


class Verdict(Shape):
    """`benchmarks.soak.run.verdicts`."""

    text: str
    value: float
    most: float
    kept: bool


class Soak(Shape):
    rate_per_s: float
    minutes: float
    requests: int
    kinds: dict[str, int]
    errors: dict[str, int]
    samples: list[Sample] = Field(min_length=1)
    verdicts: list[Verdict]


class Machine(Shape):
    cpu: str
    cpus: list[int] = Field(min_length=1)
    memory_gb: float | None = None
    system: str
    load_average: list[float]
    versions: dict[str, str]


class Origin(Shape):
    """What goes beside every number."""

    command: str
    when: datetime
    commit: str | None
    machine: Machine
    seed: int | None
    arguments: dict[str, Any]


FOUND: dict[str, type[BaseModel]] = {
    "load": Run,
    "capacity": Capacity,
    "offline": Offline,
    "limit": Limit,
    "peers": Peers,
    "frontier": Frontier,
    "proof": Proof,
    "soak": Soak,
}
