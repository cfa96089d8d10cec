"""A Dockerfile as data: its stages and instructions. What the files of this folder do not use is refused."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

KNOWN = frozenset({"RUN", "COPY", "ENV", "WORKDIR", "USER", "LABEL", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "CMD"})
VARIABLE = re.compile(r"\$\{(\w+)\}|\$(\w+)")


class DockerfileError(ValueError):
    """A Dockerfile that this module does not understand, or a step that cannot be done."""


@dataclass(frozen=True)
class Step:
    """One instruction: its word, its `--name=value` flags and the rest of it on one line."""

    word: str
    flags: Mapping[str, str]
    text: str

    def arguments(self) -> list[str]:
        """The JSON form's strings, or the words of the shell form."""
        if self.text.startswith("["):
            return [str(word) for word in json.loads(self.text)]
        return shlex.split(self.text)

    def pairs(self) -> dict[str, str]:
        """`name=value ...` of ENV and LABEL."""
        return dict(word.split("=", 1) for word in self.arguments())


@dataclass(frozen=True)
class Stage:
    name: str
    base: str
    steps: list[Step] = field(default_factory=list)

    def last(self, word: str) -> Step | None:
        return next((step for step in reversed(self.steps) if step.word == word), None)

    def every(self, word: str) -> list[Step]:
        return [step for step in self.steps if step.word == word]


def substitute(text: str, values: Mapping[str, str]) -> str:
    """`$NAME` and `${NAME}` by their values; an unknown name is an empty string, as in Docker."""
    return VARIABLE.sub(lambda found: values.get(found[1] or found[2], ""), text)


def parse(text: str, arguments: Mapping[str, str] | None = None) -> list[Stage]:
    """The stages in order. `arguments` replace the defaults of ARGs, which may stand only before the first FROM."""
    values: dict[str, str] = {}
    stages: list[Stage] = []
    for line in _lines(text):
        word, _, rest = line.partition(" ")
        rest = rest.strip()
        if word == "ARG" and not stages:
            name, _, default = rest.partition("=")
            values[name] = (arguments or {}).get(name, default)
        elif word == "FROM":
            base, _, name = substitute(rest, values).partition(" AS ")
            stages.append(Stage(name or str(len(stages)), base))
        elif word in KNOWN and stages:
            stages[-1].steps.append(_step(word, rest))
        else:
            raise DockerfileError(f"{word} is not known here")
    if unknown := (arguments or {}).keys() - values.keys():
        raise DockerfileError(f"no ARG {', '.join(sorted(unknown))}")
    return stages


def chain(stages: Sequence[Stage]) -> list[Stage]:
    """The last stage and those that it builds on by FROM, the first of them first."""
    by_name = {stage.name: stage for stage in stages}
    found = [stages[-1]]
    while found[0].base in by_name:
        found.insert(0, by_name[found[0].base])
    return found


def environment(stages: Iterable[Stage]) -> dict[str, str]:
    """ENV of a chain of stages; a value sees what stood before it."""
    found: dict[str, str] = {}
    for stage in stages:
        for step in stage.every("ENV"):
            found |= {name: substitute(value, found) for name, value in step.pairs().items()}
    return found


def _lines(text: str) -> list[str]:
    """Instructions without comments, each on one line."""
    kept = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return [line.strip() for line in re.sub(r"\\\n\s*", "", "\n".join(kept)).splitlines()]


def _step(word: str, rest: str) -> Step:
    flags = {}
    while found := re.match(r"--([\w-]+)=(\S+)\s+", rest):
        flags[found[1]] = found[2]
        rest = rest[found.end() :]
    return Step(word, flags, rest)


class Context:
    """A build's context: the files below a folder that its .dockerignore lets through."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        ignore = folder / ".dockerignore"
        lines = ignore.read_text(encoding="utf-8").splitlines() if ignore.is_file() else []
        self._rules = [line.strip() for line in lines if line.strip() and not line.startswith("#")]

    def holds(self, path: str) -> bool:
        """The last rule that matches a path or a folder above it decides."""
        parts = path.split("/")
        kept = True
        for rule in self._rules:
            pattern = rule.removeprefix("!").strip("/")
            if any(_matches("/".join(parts[: i + 1]), pattern) for i in range(len(parts))):
                kept = rule.startswith("!")
        return kept

    def files(self, source: str) -> list[str]:
        """Paths of the files that `COPY source` brings, relative to the context; DockerfileError if there are none."""
        root = self.folder / source
        found = [root] if root.is_file() else sorted(path for path in root.rglob("*") if path.is_file())
        paths = [path.relative_to(self.folder).as_posix() for path in found]
        if not (kept := [path for path in paths if self.holds(path)]):
            raise DockerfileError(f"COPY {source}: nothing of it is in the context")
        return kept


def _matches(path: str, pattern: str) -> bool:
    """`*` stays within one name; a leading `**/` is any number of folders."""
    if pattern.startswith("**/"):
        return fnmatch(path.rsplit("/", 1)[-1], pattern[3:])
    return path.count("/") == pattern.count("/") and fnmatch(path, pattern)
