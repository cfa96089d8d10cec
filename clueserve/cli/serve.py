"""`clueserve serve [BUNDLE ...]`: `bentoml serve` with what a server of ours needs."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from itertools import takewhile
from pathlib import Path

PROG = "clueserve serve"
EPILOG = """\
A BUNDLE is a name in the BentoML model store (klue-ner, klue-ner:latest), a folder, or either behind a name of its own
(ner=klue-ner). Without any, NLU_MODELS says which, or else all bundles of the store are served.
Settings are environment variables: NLU_WORKERS, NLU_DEVICE, NLU_TIMEOUT_MS and others.
Other options are passed on to `bentoml serve`; write them behind the bundles.

examples:
  clueserve serve klue-ner klue-nli --port 8080
  clueserve serve ner=build/my-ner --host 0.0.0.0"""


def run(argv: list[str]) -> int:
    command, environment = prepared(argv)
    sys.stdout.flush()
    os.execve(command[0], command, environment)  # signals then reach the server itself


def prepared(argv: list[str]) -> tuple[list[str], dict[str, str]]:
    """The command to run and its environment."""
    parser = argparse.ArgumentParser(
        prog=PROG,
        usage="clueserve serve [BUNDLE ...] [--host HOST] [--port PORT] [options of bentoml serve]",
        description="Start a server over bundles.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--host", default="127.0.0.1", help="where to listen; default: 127.0.0.1, this machine only")
    parser.add_argument("--port", default="3000", type=int, help="default: 3000")
    args, rest = parser.parse_known_args(argv)
    bundles = list(takewhile(lambda argument: not argument.startswith("-"), rest))
    for module in ("bentoml", "onnxruntime"):
        if importlib.util.find_spec(module) is None:
            raise ModuleNotFoundError(name=module)
    command = [sys.executable, "-m", "bentoml", "serve", "service.app:NLU", "--host", args.host]
    command += ["--port", str(args.port), *rest[len(bundles) :]]
    models = {"NLU_MODELS": ",".join(map(_reference, bundles))} if bundles else {}
    return command, {**os.environ, **models}


def _reference(bundle: str) -> str:
    """As NLU_MODELS wants it: folders have a separator."""
    alias, given, place = bundle.rpartition("=")
    folder = os.sep not in place and (Path(place) / "bundle.json").is_file()
    return f"{alias}{given}.{os.sep}{place}" if folder else bundle
