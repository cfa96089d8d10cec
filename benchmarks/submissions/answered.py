"""Answers that a submission cannot do without."""

from __future__ import annotations

from benchmarks.records import Record
from service.types import Answer


class Unanswered(ValueError):
    """A leaderboard wants a class or a choice for every record, and the server refused one."""


def answered(record: Record, answer: Answer) -> Answer:
    """The answer, or Unanswered if it is `{}`."""
    if not answer:
        raise Unanswered(f"record {record.id} was refused by the server, but a submission needs an answer to each")
    return answer
