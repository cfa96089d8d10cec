"""Small real checkpoints: one encoder trunk and a head a task, assembled on demand.

`python -m demo --list` shows the heads; `python -m demo klue-ner --out checkpoints` writes `checkpoints/klue-ner`, a
folder that transformers loads. See README.md here for scores, licences and limits.
"""

from demo.assemble import HEADS, TRUNK, assemble, default_names, files, more_names, names, suite_path

__all__ = ["HEADS", "TRUNK", "assemble", "default_names", "files", "more_names", "names", "suite_path"]
