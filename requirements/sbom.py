"""What a server consists of: an environment's CycloneDX list cut down to `serve.txt`, each licence known and allowed.

`make sbom`, or `python requirements/sbom.py WHOLE.json OUT.json`. Ends with 1 and the names if a licence is not.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
# They say it in words that the list has no place for.
UNSAID = {"protobuf": "BSD-3-Clause", "simple-di": "Apache-2.0"}
# One of them must be open to us; those joined by AND must all be. MPL-2.0 is about changes to its own files.
ALLOWED = re.compile(
    r"0BSD|Apache-2\.0|BSD-[23]-Clause(-Clear)?|CC0-1\.0|ISC|MIT|MPL-2\.0|PSF-2\.0|Python-2\.0|Unlicense|Zlib"
    r"|License :: OSI Approved :: (Apache Software|BSD|MIT|Mozilla Public|ISC|Python Software Foundation) License.*"
)


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def licences(component: dict[str, Any]) -> list[str]:
    """SPDX expressions or classifiers that a component states."""
    found = [
        one.get("expression") or one["license"].get("id") or one["license"]["name"] for one in component["licenses"]
    ]
    return [str(one) for one in found]


def allowed(stated: list[str]) -> bool:
    """Whether every statement leaves us a way."""

    def one(expression: str) -> bool:
        ways = expression.strip("() ").split(" OR ")
        return any(all(ALLOWED.fullmatch(part.strip("() ")) for part in way.split(" AND ")) for way in ways)

    return bool(stated) and all(map(one, stated))


def reduce(whole: dict[str, Any], pins: dict[str, str]) -> dict[str, Any]:
    """The components that are pinned, the links between them, and one from the service to each."""
    kept = [c for c in whole["components"] if plain(c["name"]) in pins]
    for component in kept:
        if not component.get("licenses") and (said := UNSAID.get(plain(component["name"]))):
            component["licenses"] = [{"license": {"id": said}}]
    refs = {c["bom-ref"] for c in kept}
    root = whole["metadata"]["component"]["bom-ref"]
    links = [
        {"ref": d["ref"], "dependsOn": [ref for ref in d.get("dependsOn", ()) if ref in refs]}
        for d in whole["dependencies"]
        if d["ref"] in refs or d["ref"] == root
    ]
    return whole | {"components": kept, "dependencies": links}


def problems(bom: dict[str, Any], pins: dict[str, str]) -> list[str]:
    """What is not installed as it is pinned, and what has no licence that we may use."""
    found = {plain(c["name"]): c for c in bom["components"]}
    out = [f"{name}=={version} is not installed" for name, version in pins.items() if name not in found]
    for name, c in found.items():
        if c["version"].split("+")[0] != pins[name]:
            out.append(f"{name} is pinned to {pins[name]}, but {c['version']} is installed")
        stated = licences({"licenses": [], **c})
        if not allowed(stated):
            out.append(f"{name}: {'; '.join(stated) or 'no licence is stated'}")
    return out


def read_pins(path: Path) -> dict[str, str]:
    lines = (line.partition("==") for line in path.read_text(encoding="utf-8").splitlines() if "==" in line)
    return {plain(name): version for name, _, version in lines}


def main(source: str, target: str) -> int:
    pins = read_pins(HERE / "serve.txt")
    bom = reduce(json.loads(Path(source).read_text(encoding="utf-8")), pins)
    Path(target).write_text(json.dumps(bom, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    bad = problems(bom, pins)
    print("\n".join(bad) or f"{target}: {len(bom['components'])} packages, all of them under licences that we may use")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
