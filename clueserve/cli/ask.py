"""`clueserve ask MODEL TEXT ...`: one request to one model, its answer for people or as JSON."""

from __future__ import annotations

import argparse
import json
import sys

from clueserve.cli import asking, draw, fields
from clueserve.cli.paper import Paper
from clueserve.client import Client
from clueserve.models import unknown

PROG = "clueserve ask"
EPILOG = """\
examples:
  clueserve ask klue-ner "삼성전자 이재용 회장은 서울에서 기자들을 만났다."
  clueserve ask klue-nli "비가 온다." "날씨가 맑다." --field top_k=1
  clueserve ask cmrc2018 "长江的长度是多少？" - < article.txt
  clueserve ask klue-re "이재용 회장이 미국을 방문했다." 이재용 미국      (text, subject, object)
  clueserve ask klue-wos "한식당을 찾아요." "몇 분이신가요?" "두 명이요."   (turns; the last is the user's)

`clueserve ask MODEL` without texts says what that model takes."""


def run(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog=PROG,
        usage="clueserve ask MODEL [TEXT ...] [--field KEY=VALUE ...] [--json] [--url URL] [--timeout S]",
        description="Ask one model of a server.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", metavar="MODEL", help="its name, as `clueserve models` lists it")
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="its texts in order; - reads one from standard input")
    parser.add_argument(
        "--field",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="any field of the request; the value in JSON, or plain text",
    )
    asking.add_arguments(parser)
    args = parser.parse_intermixed_args(argv)

    def work(client: Client) -> None:
        known = {model.name: model for model in client.models()}
        if args.model not in known:
            raise unknown(args.model, known)
        request = fields.item(known[args.model], asking.read(args.texts), args.field)
        answer = client.ask(args.model, **request)
        if args.json:
            print(json.dumps(answer.raw, ensure_ascii=False))
            return
        print(draw.page(answer, request, Paper.of(sys.stdout)))
        if answer.truncated or sys.stderr.isatty():  # beside the answer, for whoever sits there
            print(Paper.of(sys.stderr).dim(draw.note(answer)), file=sys.stderr)

    return asking.asked(args, PROG, work)
