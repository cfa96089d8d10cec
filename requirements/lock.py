"""Rewrite the lock files from the environment that runs this: `make lock` after a deliberate upgrade."""

from __future__ import annotations

import re
from importlib.metadata import distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HERE = Path(__file__).parent


def pins(names: set[str]) -> str:
    """`name==version` lines, without local build tags such as +cpu."""
    return "".join(f"{name}=={distribution(name).version.split('+')[0]}\n" for name in sorted(names))


def needed(name: str, extras: set[str], seen: set[str]) -> set[str]:
    """Distributions that `name[extras]` needs, by walking the installed metadata."""
    for text in distribution(name).requires or []:
        requirement = Requirement(text)
        environments = [{"extra": extra} for extra in extras or {""}]
        if requirement.marker and not any(requirement.marker.evaluate(e) for e in environments):
            continue
        child = canonicalize_name(requirement.name)
        if child not in seen:
            seen.add(child)
            needed(child, requirement.extras, seen)
    return seen


def main() -> None:
    everything = {canonicalize_name(d.metadata["Name"]) for d in distributions()} - {"clueserve", "pip", "setuptools"}
    serving = needed("clueserve", {"cpu"}, set())
    for file, names in (("constraints.txt", everything), ("serve.txt", serving)):
        path = HERE / file
        header = re.match(r"#.*\n", path.read_text(encoding="utf-8"))
        path.write_text((header[0] if header else "") + pins(names), encoding="utf-8")


if __name__ == "__main__":
    main()
