"""`clueserve parse TEXT ... --tasks a,b`: several models about the same texts in one call."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from clueserve.answers import Answer
from clueserve.calls import Outcome
from clueserve.cli import asking, draw
from clueserve.cli.paper import Paper
from clueserve.client import Client

PROG = "clueserve parse"
EPILOG = """\
example:
  clueserve parse "이순신은 여수에 갔다." --tasks klue-ner,klue-dp,klue-ynat"""


def run(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog=PROG,
        description="Ask several models about the same texts in one call.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("texts", nargs="+", metavar="TEXT", help="the texts; - reads one from standard input")
    parser.add_argument("--tasks", required=True, metavar="A,B", help="names of models that need nothing but a text")
    asking.add_arguments(parser)
    args = parser.parse_intermixed_args(argv)
    tasks = [task.strip() for task in args.tasks.split(",") if task.strip()]

    def work(client: Client) -> int:
        texts = asking.read(args.texts)
        document = client.parse(texts, tasks)
        status = 0 if any(isinstance(one, Answer) for column in document.values() for one in column) else 1
        if args.json:
            columns: dict[str, Any] = {task: [_raw(one) for one in column] for task, column in document.items()}
            one = {task: column[0] for task, column in columns.items()}
            print(json.dumps(one if len(texts) == 1 else columns, ensure_ascii=False))
            return status
        paper = Paper.of(sys.stdout)
        parts = []
        for i, text in enumerate(texts):
            parts += [paper.bold(f"{i + 1}: {text}")] if len(texts) > 1 else []
            parts += [f"{paper.bold(task)}\n{_shown(column[i], text, paper)}" for task, column in document.items()]
        print("\n\n".join(parts))
        return status

    return asking.asked(args, PROG, work)


def _raw(outcome: Outcome) -> dict[str, Any]:
    return outcome.raw if isinstance(outcome, Answer) else {"error": outcome.body()}


def _shown(outcome: Outcome, text: str, paper: Paper) -> str:
    if isinstance(outcome, Answer):
        rest = [paper.dim(draw.note(outcome))] if outcome.truncated else []
        return "\n".join([draw.page(outcome, {"text": text}, paper), *rest])
    return paper.alarm(str(outcome))
