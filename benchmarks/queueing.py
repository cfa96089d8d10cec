"""How long requests wait for replicas of a few threads each: a formula, and a simulation that checks it.

The formula is that of an M/G/c queue: Erlang's probability of waiting, and an exponential wait whose mean is corrected
for the spread of service times (Allen and Cunneen). Every replica has a queue of its own, and requests are spread over
the replicas at random, as a Kubernetes Service does; a random part of Poisson arrivals is Poisson again.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean


@dataclass(frozen=True)
class Replica:
    """`threads` that answer one request each; `services` are equally likely service times in milliseconds.

    `rate` is that of this replica alone, requests a second.
    """

    threads: int
    services: Sequence[float]
    rate: float

    @cached_property
    def busy(self) -> float:
        """The part of its threads that is at work; at 1 and above nothing is ever answered in time."""
        return self.rate / 1000 * fmean(self.services) / self.threads

    @cached_property
    def waiting(self) -> float:
        """The probability that a request finds all threads at work: Erlang's C."""
        if self.busy >= 1:
            return 1.0
        load = self.busy * self.threads
        blocked = 1.0  # Erlang's B by its recursion, which needs no factorial
        for n in range(1, self.threads + 1):
            blocked = load * blocked / (n + load * blocked)
        return blocked / (1 - self.busy * (1 - blocked))

    @cached_property
    def wait_if_any(self) -> float:
        """Mean milliseconds until a thread is free, of the requests that must wait."""
        if self.busy >= 1:
            return math.inf
        mean = fmean(self.services)
        spread = fmean((s - mean) ** 2 for s in self.services) / mean**2
        return mean / self.threads / (1 - self.busy) * (1 + spread) / 2

    @cached_property
    def mean_wait(self) -> float:
        return self.waiting * self.wait_if_any

    def later_than(self, ms: float) -> float:
        """The probability that wait and service together take longer."""
        return fmean(1.0 if s >= ms else self.waiting * math.exp((s - ms) / self.wait_if_any) for s in self.services)

    def percentile(self, q: float) -> float:
        """Milliseconds within which `q` percent are answered; infinite if the replica is overloaded."""
        if self.busy >= 1:
            return math.inf
        low, high = 0.0, max(self.services)
        while self.later_than(high) > 1 - q / 100:
            high *= 2
        while high - low > 1e-3:
            middle = (low + high) / 2
            low, high = (middle, high) if self.later_than(middle) > 1 - q / 100 else (low, middle)
        return high


def simulate(
    replicas: int, threads: int, services: Sequence[float], rate: float, requests: int, seed: int
) -> list[float]:
    """Milliseconds from arrival to answer of each request, sorted: first come, first served within a replica.

    The first tenth, when queues are still empty, is left out.
    """
    rng = random.Random(seed)
    free = [[0.0] * threads for _ in range(replicas)]
    now = 0.0
    took = []
    for number in range(requests):
        now += rng.expovariate(rate / 1000)
        mine = free[rng.randrange(replicas)]
        end = max(now, mine[0]) + services[rng.randrange(len(services))]
        heapq.heapreplace(mine, end)
        if number >= requests // 10:
            took.append(end - now)
    return sorted(took)
