"""What one run of load and a search for capacity save, as far as the page shows it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, field_validator

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
    failed: int
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
