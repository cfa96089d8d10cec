"""`python -m clueserve` is `clueserve`."""

from __future__ import annotations

import sys

from clueserve.cli import main

if __name__ == "__main__":
    sys.exit(main())
