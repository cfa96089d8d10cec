"""The module that BentoML loads, before there is a server."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

CODE = """
from bentoml._internal.utils.analytics.usage_stats import do_not_track
print(do_not_track())
import service.app
print(do_not_track())
"""


def test_nothing_of_what_is_served_is_told_to_bentoml(bundle_of: Callable[[str], Path]) -> None:
    """`bentoml serve` asks whether it may before it loads us, and would have its answer for good."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("BENTOML_", "NLU_"))}
    models = {"NLU_MODELS": str(bundle_of("klue/ynat"))}
    ran = subprocess.run([sys.executable, "-c", CODE], env=clean | models, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["False", "True"]
