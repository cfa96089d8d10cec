"""An ONNX graph that runs lists of unpadded rows: stacks them by axis name, pads, runs, trims.

Knows nothing of tasks, HTTP or queues. Thread-safe: every call feeds its own arrays, nothing is shared between calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from service.errors import InternalError
from service.graph.device import Device, open_session
from service.types import Array, Outputs, Row

DTYPES = {
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(bool)": np.bool_,
}

MOST_TOKENS = 32 * 512
"""Padded tokens of one run: what the activations of so many need is the most memory that a document can take. On a CPU
a run of a tenth is no dearer by the token; on a GPU it is the largest that is measured."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds that one run takes: `t0 + rows * (r + c * longest)`, measured on this machine for this graph.

    `r` is what a row costs whatever its length, such as decoding a state of 45 slots.
    """

    t0: float
    c: float
    r: float = 0.0

    def of(self, rows: int, longest: int) -> float:
        return self.t0 + rows * (self.r + self.c * longest)

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.t0 + other.t0, self.c + other.c, self.r + other.r)

    def split(self, lengths: Sequence[int]) -> list[list[int]]:
        """Group rows (by index) so that the predicted sum of all runs is least, and none has more than MOST_TOKENS.

        Sorted by length, an optimal grouping is contiguous: dynamic programming over the cuts, O(n^2) in numpy.
        Where `t0` is small against `c * length` (a CPU) groups are nearly equal rows; where it is large (a GPU), they
        grow.
        """
        order = sorted(range(len(lengths)), key=lengths.__getitem__)
        best = np.zeros(len(order) + 1)
        cut = np.zeros(len(order) + 1, dtype=np.int64)
        for j in range(1, len(order) + 1):
            longest = lengths[order[j - 1]]
            most = min(j, max(1, MOST_TOKENS // max(1, longest)))
            costs = best[j - most : j] + self.t0 + (self.r + self.c * longest) * np.arange(most, 0, -1)
            cut[j] = j - most + int(costs.argmin())
            best[j] = costs.min()
        groups: list[list[int]] = []
        j = len(order)
        while j:
            groups.append(order[cut[j] : j])
            j = int(cut[j])
        return groups[::-1]


class Model:
    """An opened ONNX file: arrays by name in, arrays by name out."""

    batches: tuple[tuple[int, int], ...] = ((8, 16),)
    """Rows x tokens that are measured besides single rows."""

    def __init__(self, path: Path, device: Device = "cpu", threads: int = 1) -> None:
        self._ort = open_session(path, device, threads)
        self.inputs = {i.name: (tuple(i.shape[1:]), DTYPES[i.type]) for i in self._ort.get_inputs()}
        self.outputs = {o.name: tuple(o.shape[1:]) for o in self._ort.get_outputs()}
        self._names = list(self.outputs)
        self._cost: Cost | None = None
        self._longest = 0

    def __call__(self, arrays: Mapping[str, Any]) -> dict[str, Array]:
        return dict(zip(self._names, self._ort.run(self._names, {n: arrays[n] for n in self.inputs}), strict=True))

    def hidden(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """What another model is going to read, wherever it lies."""
        return self(arrays)

    def measure(self, axis: str | int, longest: int) -> Cost:
        """Fit the cost model to made-up rows of up to `longest` along `axis`, once. Doubles as the warm-up."""
        if longest > self._longest:  # also for a later bundle that reads more with the same encoder
            self._longest = longest
            self.hidden(self._made_up(axis, 1, longest))  # the memory that the longest row needs is there from now on
        if self._cost is None:
            shapes = self._shapes(longest)
            seconds = []
            for rows, length in shapes:
                arrays = self._made_up(axis, rows, length)
                tries: list[float] = []
                while len(tries) < 3 and sum(tries) < 0.02:
                    start = perf_counter()
                    self.hidden(arrays)
                    tries.append(perf_counter() - start)
                seconds.append(min(tries))
            y = np.array(seconds)
            # Relative errors count: a millisecond matters for a short row, not for the longest one.
            x = np.array([[1.0, rows * n, rows] for rows, n in shapes]) / y[:, None]
            t0, c, r = np.linalg.lstsq(x, np.ones(len(y)), rcond=None)[0]
            self._cost = Cost(max(float(t0), 1e-6), max(float(c), 1e-9), max(float(r), 0.0))
        return self._cost

    def _shapes(self, longest: int) -> list[tuple[int, int]]:
        shapes = [(1, 8), (1, 32), (1, longest), *self.batches]
        return list(dict.fromkeys((rows, min(length, longest)) for rows, length in shapes))

    def _made_up(self, axis: str | int, rows: int, length: int) -> dict[str, Any]:
        sizes = {axis: length}
        return {
            name: np.ones([rows, *(sizes.get(a, 1) if isinstance(a, str) else a for a in axes)], dtype=dtype)
            for name, (axes, dtype) in self.inputs.items()
        }


class Session:
    """One graph on one device: a whole model, or the head of one behind an `encoder` that others may share.

    `pads` names the padding value of each input (0 where absent).
    `on_run(rows, tokens, padded_tokens)` is told of every run.
    """

    def __init__(
        self,
        model: Model,
        *,
        pads: Mapping[str, int],
        encoder: Model | None = None,
        on_run: Callable[[int, int, int], None] | None = None,
    ) -> None:
        self._models = [encoder, model] if encoder else [model]
        inside = encoder.outputs if encoder else {}
        taken = {name: taken for m in self._models for name, taken in m.inputs.items() if name not in inside}
        self.inputs = {name: axes for name, (axes, _) in taken.items()}
        self.outputs = model.outputs
        self._dtypes = {name: dtype for name, (_, dtype) in taken.items()}
        self._first = next(iter(self.inputs))
        self._pads = pads
        self._on_run = on_run
        self.cost = Cost(t0=1e-3, c=1e-4)

    def length(self, row: Row) -> int:
        """Tokens of a row: the size of the graph's first input."""
        return int(row[self._first].size)

    def run(self, rows: Sequence[Row]) -> list[Outputs]:
        """Answer each row, in order; grouped into as many runs as the cost model finds cheapest.

        InternalError if an output is not finite: decoders would make a label, or a JSON without numbers, of it.
        """
        lengths = [self.length(row) for row in rows]
        groups = self.cost.split(lengths)
        out: list[Outputs] = [{}] * len(rows)
        for group in groups:
            for i, answer in zip(group, self.run_together([rows[i] for i in group]), strict=True):
                out[i] = answer
                if not all(np.isfinite(array).all() for array in answer.values()):
                    raise InternalError("the model's output is not finite")
            if self._on_run:
                longest = max(lengths[i] for i in group)
                self._on_run(len(group), sum(lengths[i] for i in group), longest * len(group))
        return out

    def run_together(self, rows: Sequence[Row]) -> list[Outputs]:
        """Answer rows in one run, padded to the longest."""
        sizes = [self._sizes(row) for row in rows]
        longest = {axis: max(s[axis] for s in sizes) for axis in sizes[0]}
        arrays: dict[str, Any] = {name: self._stack(name, rows, longest) for name in self.inputs}
        *before, last = self._models
        for model in before:
            arrays |= model.hidden(arrays)
        arrays |= last(arrays)
        return [
            {name: arrays[name][(i, *(slice(s.get(d)) for d in axes))] for name, axes in self.outputs.items()}
            for i, s in enumerate(sizes)
        ]

    def _sizes(self, row: Row) -> dict[Any, int]:
        return {
            axis: size
            for name, axes in self.inputs.items()
            for axis, size in zip(axes, row[name].shape, strict=True)
            if isinstance(axis, str)
        }

    def _stack(self, name: str, rows: Sequence[Row], longest: Mapping[Any, int]) -> Any:
        shape = [longest.get(axis, axis) for axis in self.inputs[name]]
        out: Any = np.full((len(rows), *shape), self._pads.get(name, 0), dtype=self._dtypes[name])
        for i, row in enumerate(rows):
            out[(i, *map(slice, row[name].shape))] = row[name]
        return out

    def measure(self, longest: int) -> Cost:
        """The cost of a run: the sum of its models', each measured once on rows of up to `longest` tokens."""
        axis = self.inputs[self._first][-1]
        costs = [model.measure(axis, longest) for model in self._models]
        self.cost = sum(costs[1:], costs[0])
        return self.cost


class Chain:
    """The graphs of a pipeline, by stage."""

    def __init__(self, sessions: Mapping[str, Session]) -> None:
        self.sessions = sessions

    @property
    def cost(self) -> Cost:
        """That of the first stage: how much work the others get depends on what it finds."""
        return next(iter(self.sessions.values())).cost

    def run(self, rows: Sequence[Row], *, stage: str) -> list[Outputs]:
        return self.sessions[stage].run(rows)
