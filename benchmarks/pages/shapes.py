"""What the commands save, as far as the page shows it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, RootModel, field_validator

from benchmarks import histogram


class Shape(BaseModel):
    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


class Latency(Shape):
    """Milliseconds; None if nothing was answered."""

    mean: float | None
    p50: float | None
    p90: float | None
    p99: float | None
    p999: float | None = Field(alias="p99.9")
    max: float | None


class Second(Shape):
    """What became of the requests due in one second."""

    second: int = Field(ge=0, lt=1_000_000)
    answered: int
    good: int
    refused: int
    p50_ms: float | None
    p99_ms: float | None


class Quantiles(Shape):
    p50: float
    p99: float


class Server(Shape):
    cpu_ms_per_answer: float
    rss_mb: float
    processes: int


class Generator(Shape):
    lag_p99_ms: float
    cpu_share: float
    saturated: bool


class Run(Shape):
    """`benchmarks.run.describe`."""

    name: str
    profile: str
    rate_per_s: float | None
    callers: int | None
    seconds: float = Field(gt=0)
    slo_ms: float = Field(gt=0)
    offered: int
    answered: int
    good: int
    answered_per_s: float
    goodput_per_s: float
    latency_ms: Latency
    kinds: dict[str, int]
    refused_ms: Quantiles | None
    retry_after: float | None
    server: Server | None
    generator: Generator
    batch_rows: dict[int, int]
    histogram: str
    timeline: list[Second]

    @field_validator("histogram")
    @classmethod
    def _decodes(cls, text: str) -> str:
        try:
            histogram.decode(text)
        except Exception as error:  # of base64, zlib or the codec, whose errors have nothing in common
            raise ValueError(f"no HDR histogram: {error}") from None
        return text

    @property
    def load(self) -> str:
        """What was sent."""
        if self.rate_per_s is None:
            return f"{self.callers} callers, closed loop"
        return f"{self.profile}, {self.rate_per_s:.4g}/s"


class Try(Shape):
    phase: str
    rate_per_s: float = Field(gt=0)
    seed: int
    passed: bool
    run: Run


class Capacity(Shape):
    """`benchmarks.capacity.capacity`."""

    name: str
    slo_ms: float = Field(gt=0)
    seconds: float
    alone_p50_ms: float | None
    capacity_per_s: float
    peak: Run | None
    limited_by: str
    tries: list[Try]

    def confirmed(self) -> list[Run]:
        """The runs that confirm the capacity."""
        passed = [t for t in self.tries if t.phase == "confirm" and t.passed]
        return [t.run for t in passed if t.rate_per_s == passed[-1].rate_per_s]


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
}
