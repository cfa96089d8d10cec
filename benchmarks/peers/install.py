"""Virtual environments of peers: made once, and anew when their recipe changes."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.peers.recipe import Environment

DONE = "installed.json"


class SetupError(Exception):
    """A peer that could not be installed or started; the message names the log."""


def install(environment: Environment, folder: Path) -> Path:
    """The venv of an environment under `folder`. SetupError if a step fails; the log lies beside the venv."""
    venv, log = folder / environment.name, folder / f"{environment.name}.log"
    done, wanted = venv / DONE, environment.model_dump_json()
    if done.is_file() and done.read_text(encoding="utf-8") == wanted:
        return venv
    shutil.rmtree(venv, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    # This interpreter's pip works on the venv: Debian's Python cannot put one there.
    pip = [sys.executable, "-m", "pip", "--python", str(venv / "bin/python"), "install", "--quiet"]
    steps = [[environment.python, "-m", "venv", "--without-pip", str(venv)]]
    steps += [[*pip, "--disable-pip-version-check", *shlex.split(line)] for line in environment.install]
    with log.open("w", encoding="utf-8") as out:
        for step in steps:
            print(f"$ {shlex.join(step)}", file=out, flush=True)
            try:
                subprocess.run(step, stdout=out, stderr=subprocess.STDOUT, check=True)
            except (OSError, subprocess.CalledProcessError) as error:
                print(error, file=out)
                raise SetupError(f"not installed, see {log}") from None
    done.write_text(wanted, encoding="utf-8")
    return venv
