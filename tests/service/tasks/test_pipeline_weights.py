"""What a pipeline is expected to cost: the queue must know that an item is a row of its first stage and many others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from service.batching.jobs import Job, Turn
from service.batching.pool import Pool
from service.batching.runner import Runner
from service.bundle import Bundle
from service.loading import open_bundle

TEXTS = ["高血压", "右肺上叶恶性肿瘤", "糖尿病患者多饮，用二甲双胍。" * 3, "慢性胃炎" * 60]


async def jobs_of(runner: Runner, pool: Pool, requests: list[dict[str, Any]]) -> list[Job]:
    """One job a request, answered one after the other."""
    jobs: list[Job] = []
    put = pool.put

    def noting(queue: Any, job: Job, patience: float) -> None:
        jobs.append(job)
        put(queue, job, patience)

    pool.put = noting  # type: ignore[method-assign]
    for request in requests:
        await runner.submit(runner.task.Input(**request), 60, Turn())
    return jobs


@pytest.mark.parametrize(
    ("suite", "options"),
    [
        ("cblue/chip-cdn", {}),
        ("cblue/cmeie", {"on_overflow": "truncate"}),
        ("cblue/cmeie", {"on_overflow": "window"}),
    ],
)
def test_what_is_expected_of_a_pipeline_is_near_what_it_reads(
    bundle_of: Callable[[str], Path], suite: str, options: dict[str, str]
) -> None:
    """It was taken for the one row of its first stage for ever, and the queue behind it for as short."""
    task, chain = open_bundle(Bundle(bundle_of(suite)), "cpu")
    pool = Pool(1, max_wait=60, take=0.01)
    try:
        runner = Runner(task, chain, pool)
        requests = [{"text": TEXTS[2], **options}] * 40
        jobs = asyncio.run(jobs_of(runner, pool, requests))
    finally:
        pool.close()
    last = jobs[-1]
    assert 0.7 < last.tokens / last.timing.tokens < 1.4
    assert last.timing.tokens <= task.limit(last.item)


def test_a_text_is_expected_to_be_read_with_every_term(bundle_of: Callable[[str], Path]) -> None:
    """From the first request on, be it short or cut."""
    task, chain = open_bundle(Bundle(bundle_of("cblue/chip-cdn")), "cpu")
    pool = Pool(1, max_wait=60, take=0.01)
    try:
        jobs = asyncio.run(jobs_of(Runner(task, chain, pool), pool, [{"text": text} for text in TEXTS]))
    finally:
        pool.close()
    for job in jobs:
        assert 0.4 < job.tokens / job.timing.tokens < 2.5


def test_pairs_of_mentions_have_their_limit(bundle_of: Callable[[str], Path]) -> None:
    task, _ = open_bundle(Bundle(bundle_of("cblue/cmeie")), "cpu")
    stages = {name: stage.manifest.max_length for name, stage in task.tasks.items()}  # type: ignore[attr-defined]
    cut, whole = (task.limit(task.Input(text="a", on_overflow=what)) for what in ("truncate", "window"))
    assert cut == stages["entities"] + task.params.max_pairs * stages["relations"]
    assert whole == cut + 2
