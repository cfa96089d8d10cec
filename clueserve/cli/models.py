"""`clueserve models`: what a server serves."""

from __future__ import annotations

import argparse
import json
import sys

from clueserve.cli import asking, fields
from clueserve.cli.paper import Paper, table
from clueserve.client import Client

PROG = "clueserve models"


def run(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog=PROG, description="List the models of a server.")
    asking.add_arguments(parser)
    args = parser.parse_args(argv)

    def work(client: Client) -> None:
        models = client.models()
        if args.json:
            print(json.dumps([model.raw for model in models], ensure_ascii=False))
            return
        if not models:
            print("no models: the server has none, or none for this key")
            return
        paper = Paper.of(sys.stdout)
        rows = [
            [m.name, m.family, m.language, m.suite, "" if m.ready else paper.alarm("not ready")]
            for m in sorted(models, key=lambda m: m.name)
        ]
        head = [paper.dim(title) for title in ("model", "family", "language", "suite", "")]
        hint = f"Try one:\n  {fields.example(min(models, key=lambda m: len(str(m.example))))}"
        print(*table([head, *rows]), "", hint, sep="\n")

    return asking.asked(args, PROG, work)
