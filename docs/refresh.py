"""`python docs/refresh.py`: run every request that the README and the docs show, and write down the answers.

A server over the demo models must be running on port 3000, or at the address given. Blocks that are marked as not run,
and pages whose requests are for other models, stay as they are.
"""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from typing import Any

from docblocks import HOST, ROOT, Request, blocks, pages, request

OTHERS = ("docs/tutorial.md",)
WIDTH = 106


def main(host: str = HOST) -> int:
    """Rewrite the answers of all pages."""
    for page in pages():
        if page in OTHERS:
            continue
        path = ROOT / page
        lines = path.read_text(encoding="utf-8").splitlines()
        for block in reversed(blocks(page)):
            if block.language != "sh" or block.excuse or not block.shows or block.commands[0].name != "curl":
                continue
            shown = laid_out(_ask(host, request(block.commands[-1]))).splitlines()
            first = block.line + block.text.count("\n") + 1
            lines[first : first + block.shows.count("\n")] = shown
        if (text := "\n".join(lines) + "\n") != path.read_text(encoding="utf-8"):
            path.write_text(text, encoding="utf-8")
            print(f"{page}: answers are this server's now")
    return 0


def _ask(host: str, asked: Request) -> Any:
    call = urllib.request.Request(f"http://{host}{asked.path}", asked.body or None, asked.headers, method=asked.method)
    try:
        with urllib.request.urlopen(call) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        return json.load(error)


def laid_out(value: Any, indent: int = 0, before: int = 0) -> str:
    """JSON in as few lines as keep within WIDTH; `before`: characters that stand in front of it on its line."""
    flat = json.dumps(value, ensure_ascii=False)
    if indent + before + len(flat) <= WIDTH or not isinstance(value, dict | list) or not value:
        return flat
    inner = indent + 1
    if isinstance(value, dict):
        keys = [f"{json.dumps(key, ensure_ascii=False)}: " for key in value]
        parts = [key + laid_out(v, inner, len(key)) for key, v in zip(keys, value.values(), strict=True)]
        return "{" + _rows(parts, inner) + "}"
    parts = [laid_out(v, inner) for v in value]
    return "[\n" + " " * inner + _rows(parts, inner) + "]"


def _rows(parts: list[str], indent: int) -> str:
    """Parts below each other; short ones share a line."""
    rows: list[str] = []
    for part in parts:
        room = WIDTH - indent - len(part) - 3
        if rows and "\n" not in rows[-1] + part and len(rows[-1]) <= room:
            rows[-1] += f", {part}"
        else:
            rows.append(part)
    return (",\n" + " " * indent).join(rows)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
