"""One benchmark, one predictor: records in, scores with intervals out. What was left out or refused is counted."""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from tqdm import tqdm

from benchmarks.bootstrap import Interval, interval
from benchmarks.metrics import METRICS
from benchmarks.predictors import Outcome, Predictor, PredictorError, ask_all
from benchmarks.readers import READERS
from benchmarks.records import Record
from service.bundle import Score, sha256
from suites import Suite


class Unmeasurable(ValueError):
    """A suite without a reader or a metric, or data without anything to score."""


@dataclass(frozen=True)
class Data:
    """Scored records of one or several files, and how many others were left out, by reason."""

    files: Sequence[Path]
    records: Sequence[Record]
    left_out: Counter[str]
    whole: bool
    """Whether no limit cut the records."""

    @property
    def name(self) -> str:
        return " + ".join(path.name for path in self.files)

    @property
    def sha256(self) -> str:
        """Digest of the file, or of the digests of several."""
        digests = [sha256(path) for path in self.files]
        return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()


@dataclass(frozen=True)
class Measured:
    """What one predictor made of one benchmark. `scores` are by metric, `refused` by the error's code."""

    suite: Suite
    name: str
    recorded: Sequence[Score]
    bundle_sha256: str | None
    data: Data
    outcomes: Sequence[Outcome]
    scores: dict[str, Interval]
    seconds: float

    @property
    def refused(self) -> Counter[str]:
        return Counter(outcome.error["code"] for outcome in self.outcomes if outcome.error is not None)


def load(files: Sequence[Path], suite: Suite, *, uncertain: bool = False, limit: int | None = None) -> Data:
    """Read a benchmark's files. Without `uncertain`, records that the file does not vouch for are left out."""
    reader = READERS.get(suite.reader or suite.name)
    if reader is None:
        raise Unmeasurable(f"{suite.name}: no reader {suite.reader or suite.name!r}; there are {', '.join(READERS)}")
    read = [record for path in files for record in reader(path, suite)]
    left_out: Counter[str] = Counter()
    records = []
    for record in read:
        if record.gold is None:
            left_out["without a gold answer"] += 1
        elif record.uncertain and not uncertain:
            left_out[record.uncertain] += 1
        else:
            records.append(record)
    if not records:
        raise Unmeasurable(f"{files[0]}: nothing to score among {len(read)} records, {_reasons(left_out)}")
    return Data(files, records[:limit], left_out, limit is None or limit >= len(records))


def measure(predictor: Predictor, suite: Suite, data: Data, threads: int) -> Measured:
    """Ask for every record, show the progress on stderr, and score. A refused record counts as wrong."""
    if unknown := [name for name in suite.metrics if name not in METRICS]:
        raise Unmeasurable(f"{suite.name}: no metric {', '.join(unknown)}; there are {', '.join(METRICS)}")
    start = perf_counter()
    outcomes: list[Outcome] = []
    items = [record.item for record in data.records]
    with tqdm(total=len(items), desc=predictor.name, unit=" records", file=sys.stderr, disable=None) as bar:
        for chunk in ask_all(predictor, items, threads):
            outcomes += chunk
            bar.update(len(chunk))
    if all(outcome.error for outcome in outcomes):
        raise PredictorError(f"{predictor.name} refused every record of {data.name}, first with {outcomes[0].error}")
    seconds = perf_counter() - start
    answers = [outcome.answer or {} for outcome in outcomes]
    scores = {name: interval(METRICS[name], data.records, answers, suite) for name in suite.metrics}
    return Measured(suite, predictor.name, predictor.scores, predictor.sha256, data, outcomes, scores, seconds)


def _reasons(counts: Counter[str]) -> str:
    return ", ".join(f"{n} {reason}" for reason, n in counts.most_common()) or "none"
