"""`python -m benchmarks submission`: a leaderboard's test file, answered and written as the leaderboard takes it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tqdm import tqdm

import suites
from benchmarks.predictors import InProcess, Outcome, Predictor, PredictorError, ask_all
from benchmarks.readers import READERS
from benchmarks.records import ReaderError
from benchmarks.remote import OverHttp
from benchmarks.submissions import SUBMISSIONS
from service.batching.cpus import usable_cpus
from service.config import Settings, find_bundles
from service.errors import BundleError

HELP = "answer a leaderboard's test file and write the file that it takes"
FAULTS = (BundleError, PredictorError, ValueError, suites.UnknownSuite, suites.InvalidSuite, OSError)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--suite", metavar="NAME", help="task, such as clue/afqmc; default: the bundle's")
    parser.add_argument("--data", type=Path, required=True, metavar="FILE", help="the benchmark's test file")
    parser.add_argument("--bundle", metavar="B", help="BentoML tag, or folder (with a '/'), to load in this process")
    parser.add_argument("--url", metavar="U", help="a model of a running server, http://127.0.0.1:3000/NAME")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder that gets the file")


def problem(args: argparse.Namespace) -> str | None:
    """What makes no sense together."""
    return "give either --bundle or --url" if (args.bundle is None) == (args.url is None) else None


def run(args: argparse.Namespace) -> int:
    """Answer, write, check; 0 if the leaderboard's rules hold for what was written."""
    try:
        path, refused = _write(args)
    except FAULTS as error:
        print(f"not written: {error}", file=sys.stderr)
        return 1
    print(f"{path}: follows the format{f', but {refused} records were refused and stand empty' if refused else ''}")
    return 0


def _write(args: argparse.Namespace) -> tuple[Path, int]:
    predictor: Predictor
    if args.url:
        predictor = OverHttp(args.url)
    else:
        (bundle,) = find_bundles(Settings(models=args.bundle)).values()
        predictor = InProcess(bundle)
    suite = suites.load(args.suite or predictor.suite)
    reader = suite.reader or suite.name
    if reader not in SUBMISSIONS:
        raise ReaderError(args.data, suite.name, f"one of the tasks with a leaderboard: {', '.join(SUBMISSIONS)}")
    records = READERS[reader](args.data, suite)
    outcomes: list[Outcome] = []
    with tqdm(total=len(records), desc=predictor.name, unit=" records", file=sys.stderr, disable=None) as bar:
        for chunk in ask_all(predictor, [record.item for record in records], usable_cpus()):
            outcomes += chunk
            bar.update(len(chunk))
    args.out.mkdir(parents=True, exist_ok=True)
    answers = [outcome.answer or {} for outcome in outcomes]
    path = SUBMISSIONS[reader](records, answers, suite, args.data, args.out)
    return path, sum(outcome.error is not None for outcome in outcomes)
