"""`python docs/refresh.py`: run every request that README.md and docs/tasks.md show, and write down the answers.

A server over the demo models must be running on port 3000, or at the address given.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

PAGES = ("README.md", "docs/tasks.md")
SHOWN = re.compile(r"(```sh\n(curl [^\n]*)\n```\n```json\n)[^\n]*(\n```)")


def main(host: str = "localhost:3000") -> int:
    root = Path(__file__).parents[1]

    def answered(match: re.Match[str]) -> str:
        command = shlex.split(match[2].replace("localhost:3000", host))
        return (
            match[1]
            + subprocess.run([*command, "--fail-with-body"], capture_output=True, check=True, text=True).stdout.strip()
            + match[3]
        )

    for page in PAGES:
        path = root / page
        # What stands below is served on request, and need not be there.
        served, mark, rest = path.read_text(encoding="utf-8").partition("## On request")
        path.write_text(SHOWN.sub(answered, served) + mark + rest, encoding="utf-8")
        print(f"{page}: answers are this server's")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
