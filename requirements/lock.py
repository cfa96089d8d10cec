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


def needed(name: str, extras: frozenset[str], seen: set[tuple[str, frozenset[str]]]) -> set[str]:
    """Distributions that `name[extras]` needs, by walking the installed metadata."""
    found: set[str] = set()
    for text in distribution(name).requires or []:
        requirement = Requirement(text)
        if requirement.marker and not any(requirement.marker.evaluate({"extra": e}) for e in extras | {""}):
            continue
        child = canonicalize_name(requirement.name)
        found.add(child)
        key = (child, frozenset(requirement.extras))
        if key not in seen:
            seen.add(key)
            found |= needed(*key, seen)
    return found


def main() -> None:
    everything = {canonicalize_name(d.metadata["Name"]) for d in distributions()} - {"clueserve", "pip", "setuptools"}
    serving = needed("clueserve", frozenset({"cpu", "trace"}), set())
    for file, names in (("constraints.txt", everything), ("serve.txt", serving)):
        path = HERE / file
        header = re.match(r"#.*\n", path.read_text(encoding="utf-8"))
        path.write_text((header[0] if header else "") + pins(names), encoding="utf-8")


if __name__ == "__main__":
    main()
