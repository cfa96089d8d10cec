"""Exports onto disks that are too small, in a mount namespace of its own: `unshare -Urm python full_disk.py ...`.

Prints a line of JSON a case: exit status, what was said, the files on the disk afterwards, the bundles in the store.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

PLACES = ("temporary", "out", "store")
PARTS = (0.02, 0.97)
"""Sizes of the disk, in parts of the bundle."""


def main(checkpoint: str, suite: str, bundle: str, disk: str) -> None:
    """`bundle`: the whole bundle that was exported from the checkpoint. `disk`: an empty folder to mount disks on."""
    import bentoml
    from bentoml._internal.configuration.containers import BentoMLContainer

    from exporters.__main__ import main as export

    size = sum(path.stat().st_size for path in Path(bundle).iterdir())
    for place in PLACES:
        for part in PARTS:
            mount = ["mount", "-t", "tmpfs", "-o", f"size={int(size * part / 1024) + 1}k", "full", disk]
            subprocess.run(mount, check=True)
            tempfile.tempdir = disk if place == "temporary" else None
            arguments = [checkpoint, "--suite", suite, "--name", "tiny"]
            if place == "store":
                (Path(disk) / "models").mkdir()
                BentoMLContainer.bentoml_home.set(disk)
            else:
                arguments += ["--out", disk if place == "out" else f"{disk}-out"]
            with redirect_stderr(StringIO()) as said, redirect_stdout(said):
                status = export(arguments)
            files = [str(path.relative_to(disk)) for path in Path(disk).rglob("*") if path.is_file()]
            stored = [str(model.tag) for model in bentoml.models.list()] if place == "store" else []
            line = said.getvalue().splitlines()[-1]
            print(json.dumps({"place": place, "part": part, "status": status, "said": line, "left": files + stored}))
            subprocess.run(["umount", disk], check=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
