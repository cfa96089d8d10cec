"""`python -m exporters CHECKPOINT --suite klue/ner`: export, verify, store, and say what was found."""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from pathlib import Path
from time import perf_counter


def main(argv: list[str] | None = None) -> int:
    """Run the command; 0 if a verified bundle was stored, 1 with the reason otherwise."""
    parser = argparse.ArgumentParser(
        prog="python -m exporters", description="Export a fine-tuned checkpoint as a verified bundle."
    )
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="folder or hub id")
    parser.add_argument(
        "--suite", required=True, metavar="NAME", help="task, such as klue/ner, or a suite file of your own (.yaml)"
    )
    parser.add_argument(
        "--precision", choices=("fp32", "int8", "fp16", "fp16-packed"), default="fp32", help="default: fp32"
    )
    parser.add_argument(
        "--data", type=Path, nargs="+", metavar="FILE", help="int8: the benchmark's own file, which it is judged by"
    )
    parser.add_argument("--accept-loss", metavar="REASON", help="int8: export it whatever it loses; the bundle says so")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where it is verified; default: cpu")
    parser.add_argument(
        "--name", metavar="N", help="name of the bundle and its endpoint; default: the checkpoint's last path part"
    )
    parser.add_argument(
        "--labels", metavar="L", help="class order a,b,c of a checkpoint that does not name its classes, or 'suite'"
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="write DIR/NAME instead of storing it in the BentoML model store"
    )
    args = parser.parse_args(argv)
    if args.precision != "int8" and (args.data or args.accept_loss):
        parser.error("--data and --accept-loss are for --precision int8")
    last = Path(args.checkpoint).resolve().name
    name = args.name or re.sub(r"[^a-z0-9._-]+", "-", last.lower()).strip("-._")

    import suites
    from exporters.export import BundleError, ExportError, export

    begun = perf_counter()

    def say(message: str) -> None:
        print(f"[{perf_counter() - begun:5.1f} s] {name}: {message}", file=sys.stderr, flush=True)

    try:
        done = export(
            args.checkpoint,
            suites.load(args.suite),
            name=name,
            precision=args.precision,
            device=args.device,
            data=args.data or (),
            accept_loss=args.accept_loss,
            declared_labels=args.labels.split(",") if args.labels else None,
            out=args.out,
            say=say,
        )
    except (ExportError, BundleError, suites.UnknownSuite, suites.InvalidSuite, OSError) as error:
        print(f"not exported: {_reason(error)}", file=sys.stderr)
        return 1
    p = done.parity
    print(
        f"{done.place}  {done.family}, {args.precision}, {done.bytes / 1e6:.1f} MB, {done.seconds:.1f} s; "
        f"{p.shapes} shapes, logits within {p.logit_delta:.1e} of torch (largest {p.largest_logit:.1f}), "
        f"{'losses accepted' if args.accept_loss else 'answers equal'}, scores within {p.score_delta:.1e}"
    )
    if done.doubt:
        print(f"{name}: {done.doubt}", file=sys.stderr)
    return 0


def _reason(error: Exception) -> str:
    """One line: a folder that could not be copied lists each of its files."""
    return str(error.args[0][0][2] if isinstance(error, shutil.Error) else error)


if __name__ == "__main__":
    sys.exit(main())
