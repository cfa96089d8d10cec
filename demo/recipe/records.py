"""Records of the public files, one reader a format. A record keeps its raw form, so that it can be written back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Source = dict[str, Any]
Span = tuple[int, int, str]
"""Start, exclusive end and type of an entity."""


@dataclass(frozen=True)
class Record:
    """One example. `key` decides its split, `texts` are what a held-out record must not share with a training one."""

    raw: Any
    key: str
    texts: tuple[str, ...]
    label: str = ""
    certain: bool = True
    """False where the file says that its annotation is a guess: such a record does not train."""
    tags: list[str] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    heads: list[int] = field(default_factory=list)


def read(root: Path, source: Source) -> list[Record]:
    """Records of one source of tasks.yaml, whose file lies under `root`."""
    return list(READERS[source["reader"]](root / source["file"], source))


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _blocks(path: Path, mark: str) -> Iterator[tuple[str, list[list[str]]]]:
    """Header and tab-separated rows of every sentence of a KLUE TSV file."""
    header, rows = "", list[list[str]]()
    for line in path.read_text(encoding="utf-8").split("\n"):
        if line.startswith(f"## {mark}"):
            if rows:
                yield header, rows
            header, rows = line, []
        elif line and header and not line.startswith("##"):
            rows.append(line.split("\t"))
    if rows:
        yield header, rows


def _klue_ner(path: Path, _: Source) -> Iterator[Record]:
    for header, rows in _blocks(path, "klue-ner"):
        text = "".join(row[0] for row in rows)
        yield Record((header, rows), header[3:].split("\t")[0], (text,), tags=[row[1] for row in rows])


def _klue_dp(path: Path, _: Source) -> Iterator[Record]:
    for header, rows in _blocks(path, "klue-dp"):
        words = [row[1] for row in rows]
        heads, relations = [int(row[4]) for row in rows], [row[5] for row in rows]
        key = header[3:].split("\t")[0]
        yield Record((header, rows), key, (" ".join(words),), words=words, heads=heads, tags=relations)


def _json_list(path: Path, source: Source) -> Iterator[Record]:
    for raw in _json(path):
        label = raw
        for part in source["label"].split("."):
            label = label[part]
        yield Record(raw, raw[source["key"]], tuple(raw[name] for name in source["fields"]), str(label))


def _tsv_header(path: Path, source: Source) -> Iterator[Record]:
    names, *rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    for row in rows:
        if len(row) == len(names):
            raw = dict(zip(names, row, strict=True))
            yield Record(raw, "", tuple(raw[name] for name in source["fields"]), raw[source["label"]])


def _tsv(path: Path, source: Source) -> Iterator[Record]:
    for line in path.read_text(encoding="utf-8").split("\n"):
        row = line.split("\t")
        if len(row) == source["fields"] + 1:
            yield Record(row, "", tuple(text.strip() for text in row[1:]), row[0])


def _klue_re(path: Path, _: Source) -> Iterator[Record]:
    for raw in _json(path):
        text, marks = raw["sentence"], []
        for name, mark in (("subject_entity", "subj"), ("object_entity", "obj")):
            entity = raw[name]  # its last index is inclusive
            marks += [(entity["start_idx"], 1, f"<{mark}>"), (entity["end_idx"] + 1, 0, f"</{mark}>")]
        for at, _order, mark in sorted(marks, reverse=True):
            text = text[:at] + mark + text[at:]
        yield Record(raw, raw["sentence"], (text,), raw["label"], certain="_ambiguous" not in raw)


def _squad(path: Path, source: Source) -> Iterator[Record]:
    for article in _json(path)["data"]:
        for paragraph in article["paragraphs"]:
            key = paragraph["context"] if source.get("key") == "context" else article.get("title", "")
            for raw in paragraph["qas"]:
                context = paragraph["context"]
                span = None if raw.get("is_impossible", False) else _answer(context, raw["answers"][0])
                certain = raw.get("is_impossible", False) or span is not None
                spans = [(*span, "")] if span else []
                yield Record(raw, key, (context, raw["question"].strip()), certain=certain, spans=spans)


def _answer(context: str, answer: dict[str, Any]) -> tuple[int, int] | None:
    """The answer's place: where the file says, up to three characters beside it, or its first occurrence."""
    start, text = answer["answer_start"], answer["text"]
    for shift in (0, -1, 1, -2, 2, -3, 3):
        at = start + shift
        if text and at >= 0 and context[at : at + len(text)] == text:
            return at, at + len(text)
    at = context.find(text) if text else -1
    return None if at < 0 else (at, at + len(text))


def _mentions(path: Path, source: Source) -> Iterator[Record]:
    for line in path.read_text(encoding="utf-8").splitlines():
        raw = json.loads(line)
        text, spans = raw["text"], set()
        for mention in raw["mention_data"]:
            start = int(mention["offset"])
            end = start + len(mention["mention"])
            if text[start:end] == mention["mention"]:
                spans.add((start, end, mention[source["type"]]))
        yield Record(raw, "", (text,), spans=sorted(spans))


def _iob(path: Path, _: Source) -> Iterator[Record]:
    for block in path.read_text(encoding="utf-8").split("\n\n"):
        rows = [line.split("\t") for line in block.split("\n") if line]
        if rows:
            words = [row[0] for row in rows]
            yield Record(rows, "", (" ".join(words),), words=words, tags=[row[1] for row in rows])


def _klue_wos(path: Path, _: Source) -> Iterator[Record]:
    for raw in _json(path):
        yield Record(raw, raw["guid"], ("\n".join(turn["text"] for turn in raw["dialogue"]),))


def _pubmedqa(path: Path, _: Source) -> Iterator[Record]:
    for key, raw in _json(path).items():
        text = " ".join([raw["QUESTION"], *raw["CONTEXTS"]])
        yield Record(raw, key, (text,), raw["final_decision"])


READERS: dict[str, Callable[[Path, Source], Iterator[Record]]] = {
    "klue_ner": _klue_ner,
    "klue_dp": _klue_dp,
    "json_list": _json_list,
    "tsv_header": _tsv_header,
    "tsv": _tsv,
    "klue_re": _klue_re,
    "squad": _squad,
    "mentions": _mentions,
    "iob": _iob,
    "klue_wos": _klue_wos,
    "pubmedqa": _pubmedqa,
}
