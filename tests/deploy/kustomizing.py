"""What `kubectl kustomize` makes of a folder, for machines without it: only the fields that this project uses.

A generated ConfigMap keeps its plain name here; kustomize adds a hash of its content.
"""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

Object = dict[str, Any]
KNOWN = {"apiVersion", "kind", "resources", "components", "configMapGenerator", "images", "patches"}
# Lists whose entries are merged by a field; all others are replaced as a whole.
KEYS = {"containers": "name", "volumes": "name", "volumeMounts": "mountPath", "env": "name"}


def build(folder: Path) -> list[Object]:
    """The objects of a kustomization with all that it builds on."""
    return _apply(folder, [])


def find(objects: list[Object], kind: str, name: str = "clueserve") -> Object:
    """The one object of this kind and name."""
    (found,) = [o for o in objects if (o["kind"], o["metadata"]["name"]) == (kind, name)]
    return found


def _apply(folder: Path, objects: list[Object]) -> list[Object]:
    custom = yaml.safe_load((folder / "kustomization.yaml").read_text(encoding="utf-8"))
    assert set(custom) <= KNOWN, f"{folder}: {set(custom) - KNOWN}"
    for path in custom.get("resources", []):
        if (folder / path).is_dir():
            objects += build(folder / path)
        else:
            objects += list(yaml.safe_load_all((folder / path).read_text(encoding="utf-8")))
    for entry in custom.get("configMapGenerator", []):
        data = dict(line.split("=", 1) for line in _lines(folder, entry))
        if entry.get("behavior") == "merge":
            find(objects, "ConfigMap", entry["name"])["data"].update(data)
        else:
            name = {"name": entry["name"]}
            objects.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": name, "data": data})
    for path in custom.get("components", []):
        _apply(folder / path, objects)
    for patch in custom.get("patches", []):
        change = yaml.safe_load((folder / patch["path"]).read_text(encoding="utf-8"))
        target = find(objects, change["kind"], change["metadata"]["name"])
        target.update(merged(target, change))
    images = {image["name"]: f"{image['newName']}:{image['newTag']}" for image in custom.get("images", [])}
    for workload in objects:
        for container in workload.get("spec", {}).get("template", {}).get("spec", {}).get("containers", []):
            container["image"] = images.get(container["image"], container["image"])
    return objects


def _lines(folder: Path, entry: Object) -> list[str]:
    texts = [(folder / path).read_text(encoding="utf-8") for path in entry.get("envs", [])]
    return [line for text in texts for line in text.splitlines() if line.strip()] + entry.get("literals", [])


def merged(old: Any, new: Any, field: str = "") -> Any:
    """A strategic merge: objects by their fields, some lists by a field of their entries, everything else is new."""
    if isinstance(old, dict) and isinstance(new, dict):
        return old | {name: merged(old.get(name), value, name) for name, value in new.items()}
    if isinstance(old, list) and isinstance(new, list) and (key := KEYS.get(field)):
        theirs = {entry[key]: entry for entry in new}
        kept = [merged(entry, theirs.pop(entry[key])) if entry[key] in theirs else entry for entry in old]
        # kustomize puts new entries first.
        return list(deepcopy(list(theirs.values()))) + kept
    return deepcopy(new)
