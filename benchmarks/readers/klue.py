"""KLUE's JSON formats: headlines, sentence pairs, relations, reading comprehension and dialogues."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.readers.files import json_file, json_records, need, one_of
from benchmarks.records import ReaderError, Record
from suites import Suite


def ynat(path: Path, suite: Suite) -> list[Record]:
    """A headline; gold is its topic."""
    return [
        Record(
            need(r, "guid", str, path, where),
            {"text": need(r, "title", str, path, where)},
            one_of(need(r, "label", str, path, where), suite.labels, path, where),
        )
        for where, r in json_records(path)
    ]


def nli(path: Path, suite: Suite) -> list[Record]:
    """Premise and hypothesis; gold is the majority label."""
    return [
        Record(
            need(r, "guid", str, path, where),
            {"text": need(r, "premise", str, path, where), "text_pair": need(r, "hypothesis", str, path, where)},
            one_of(need(r, "gold_label", str, path, where), suite.labels, path, where),
        )
        for where, r in json_records(path)
    ]


def sts(path: Path, suite: Suite) -> list[Record]:
    """Two sentences; gold is the mean of the annotators (`real-label`), which the rounded label is made from."""
    return [
        Record(
            need(r, "guid", str, path, where),
            {"text": need(r, "sentence1", str, path, where), "text_pair": need(r, "sentence2", str, path, where)},
            float(need(need(r, "labels", dict, path, where), "real-label", (int, float), path, where)),
        )
        for where, r in json_records(path)
    ]


def relations(path: Path, suite: Suite) -> list[Record]:
    """A sentence with a subject and an object; gold is their relation.

    Ends are inclusive in the file. Copies that lost the positions mark with `_ambiguous` which of them were guessed.
    """
    found = []
    for where, r in json_records(path):
        item: dict[str, Any] = {"text": need(r, "sentence", str, path, where)}
        for role in ("subject", "object"):
            item[role] = _span(need(r, f"{role}_entity", dict, path, where), item["text"], path, f"{where}, {role}")
        guessed = r.get("_ambiguous")
        found.append(
            Record(
                need(r, "guid", str, path, where),
                item,
                one_of(need(r, "label", str, path, where), suite.labels, path, where),
                f"the position of the {' and the '.join(guessed)} was guessed" if guessed else None,
            )
        )
    return found


def _span(entity: dict[str, Any], text: str, path: Path, where: str) -> dict[str, Any]:
    start, end = need(entity, "start_idx", int, path, where), need(entity, "end_idx", int, path, where) + 1
    word = need(entity, "word", str, path, where)
    if not 0 <= start < end or text[start:end] != word:
        raise ReaderError(path, where, f"expected {word!r} at {start} to {end - 1}, found {text[start:end]!r}")
    return {"start": start, "end": end} | ({"type": entity["type"]} if "type" in entity else {})


def mrc(path: Path, suite: Suite) -> list[Record]:
    """A question and its passage; gold is every accepted answer, none of them for an unanswerable question."""
    found = []
    for number, article in enumerate(need(json_file(path), "data", list, path, "the file")):
        for paragraph in need(article, "paragraphs", list, path, f"article {number}"):
            context = need(paragraph, "context", str, path, f"article {number}")
            for qa in need(paragraph, "qas", list, path, f"article {number}"):
                guid = need(qa, "guid", str, path, f"article {number}")
                item = {"question": need(qa, "question", str, path, guid), "context": context}
                answers = [need(a, "text", str, path, guid) for a in need(qa, "answers", list, path, guid)]
                found.append(Record(guid, item, answers))
    return found


def wos(path: Path, suite: Suite) -> list[Record]:
    """A user's turn with all turns before it, id `guid-k` for the k-th one; gold is the state after it."""
    found = []
    for where, r in json_records(path):
        guid = need(r, "guid", str, path, where)
        turns: list[dict[str, str]] = []
        users = 0
        for turn in need(r, "dialogue", list, path, guid):
            role = need(turn, "role", str, path, guid)
            if role not in ("user", "sys"):
                raise ReaderError(path, guid, f"expected the role user or sys, found {role!r}")
            turns.append({"role": role, "text": need(turn, "text", str, path, guid)})
            if role == "user":
                state = need(turn, "state", list, path, guid)
                gold = dict(_slot(entry, path, f"{guid}, turn {len(turns)}") for entry in state)
                found.append(Record(f"{guid}-{users}", {"turns": list(turns)}, gold))
                users += 1
    return found


def _slot(entry: Any, path: Path, where: str) -> tuple[str, str]:
    """`domain-slot-value`; further dashes belong to the value."""
    parts = entry.split("-", 2) if isinstance(entry, str) else []
    if len(parts) != 3:
        raise ReaderError(path, where, f"expected domain-slot-value, found {entry!r:.80}")
    return f"{parts[0]}-{parts[1]}", parts[2]


READERS = {
    "klue/ynat": ynat,
    "klue/nli": nli,
    "klue/sts": sts,
    "klue/re": relations,
    "klue/mrc": mrc,
    "klue/wos": wos,
}
