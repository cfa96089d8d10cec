"""`python -m benchmarks accuracy`: a bundle's or a server's scores on a benchmark's own files, by its own metrics."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import suites
from benchmarks import datasets, scorebook
from benchmarks.measure import Measured, Unmeasurable, load, measure
from benchmarks.predictors import InProcess, Predictor, PredictorError
from benchmarks.records import ReaderError
from benchmarks.remote import OverHttp, models
from benchmarks.report import save, summary, table
from service.batching.cpus import usable_cpus
from service.bundle import Score
from service.config import Settings, find_bundles
from service.errors import BundleError

HELP = "score a bundle or a running server on a benchmark's data"
FAULTS = (BundleError, PredictorError, ReaderError, Unmeasurable, suites.UnknownSuite, suites.InvalidSuite, OSError)
Open = Callable[[], Predictor]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--suite", metavar="NAME", help="task, such as klue/ner, or a .yaml file; default: the bundle's"
    )
    parser.add_argument("--data", type=Path, nargs="+", metavar="FILE", help="the benchmark's file, or its files")
    parser.add_argument("--bundle", metavar="B", help="BentoML tag, or folder (with a '/'), to load in this process")
    parser.add_argument(
        "--url", metavar="U", help="a model of a running server, such as http://127.0.0.1:3000/klue-ner"
    )
    parser.add_argument(
        "--all", action="store_true", help="every bundle of the store, or every model of the server at U"
    )
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="where --all looks for each suite's data")
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N records")
    parser.add_argument(
        "--include-uncertain", action="store_true", help="also records that the file does not vouch for"
    )
    parser.add_argument("--threads", type=int, metavar="N", help="batches under way at once; default: the usable CPUs")
    parser.add_argument("--save", type=Path, metavar="DIR", help="write predictions.jsonl and result.json there")
    parser.add_argument("--write-score", action="store_true", help="record the scores in the bundle's manifest")


def problem(args: argparse.Namespace) -> str | None:
    """What makes no sense together."""
    if args.all:
        if args.data_dir is None or args.data or args.suite or args.bundle:
            return "--all takes --data-dir, and neither --data, --suite nor --bundle"
    elif not args.data or args.data_dir or (args.bundle is None) == (args.url is None):
        return "give --data and either --bundle or --url, or else --all and --data-dir"
    if any(c in (args.bundle or "") for c in ",="):
        return "--bundle is one tag or folder"
    if args.write_score and (args.url or args.limit or args.include_uncertain):
        return "--write-score records whole benchmarks of bundles: not --url, --limit or --include-uncertain"
    if any(number is not None and number < 1 for number in (args.limit, args.threads)):
        return "--limit and --threads are at least 1"
    return None


def run(args: argparse.Namespace) -> int:
    """Measure and print; 0 if everything that was asked for was measured."""
    logging.basicConfig(format="%(name)s: %(message)s", stream=sys.stderr)
    measured: list[Measured] = []
    failed = False
    try:
        for name, opened, ref in _wanted(args):
            try:
                found = _one(args, name, opened, ref)
            except FAULTS as error:
                print(f"{name}: not measured: {error}", file=sys.stderr)
                failed = True
                continue
            if found is not None:
                measured.append(found)
    except FAULTS as error:
        print(f"not measured: {error}", file=sys.stderr)
        return 1
    if args.all and measured:
        print(summary(measured))
    return 1 if failed or not measured else 0


def _wanted(args: argparse.Namespace) -> Iterator[tuple[str, Open, str]]:
    """Each predictor's name, how to open it, and what the bundle is called where it is kept."""
    if args.url and args.all:
        root = args.url.rstrip("/")
        for entry in models(root):
            url = f"{root}/{entry['name']}"
            yield entry["name"], partial(OverHttp, url), url
    elif args.url:
        yield args.url, partial(OverHttp, args.url), args.url
    else:
        for name, bundle in find_bundles(Settings(models=args.bundle or "")).items():
            yield name, partial(InProcess, bundle), args.bundle or f"{name}:latest"


def _one(args: argparse.Namespace, name: str, opened: Open, ref: str) -> Measured | None:
    """Measure one predictor, print, save and record. None if --all found no data for it."""
    predictor = opened()
    suite = suites.load(args.suite or predictor.suite)
    files = args.data or datasets.find(args.data_dir, predictor.name, suite.name, suite.reader)
    if not files:
        print(f"{name}: no data for {suite.name} in {args.data_dir}", file=sys.stderr)
        return None
    data = load(files, suite, uncertain=args.include_uncertain, limit=args.limit)
    found = measure(predictor, suite, data, args.threads or usable_cpus())
    print(table(found), end="\n\n", flush=True)
    if args.save:
        save(found, args.save / name if args.all else args.save)
    if args.write_score:
        print(f"recorded in {scorebook.write(ref, _scores(found))}", end="\n\n")
    return found


def _scores(found: Measured) -> list[Score]:
    data = f"{found.data.name}, sha256 {found.data.sha256[:12]}"
    n = len(found.outcomes)
    return [Score(metric=m, value=round(s.value, 2), n=n, data=data) for m, s in found.scores.items()]
