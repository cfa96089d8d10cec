"""The held-out records of every task, each in its benchmark's own format."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from demo.recipe.records import Record
from demo.recipe.splits import held_out, split
from demo.recipe.tasks import Task


def write(tasks: dict[str, Task], data: Path, out: Path) -> list[Path]:
    """Write one file a task into `out`; returns the files."""
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for task in tasks.values():
        reader = task.sources[0]["reader"]
        if reader == "squad":
            suffix, text = ".json", _dump(_squad(task, data))
        else:
            suffix, form = _FORMS[reader]
            text = form(split(task, data).held)
        path = out / f"{task.name}{suffix}"
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"


def _sentences(head: str) -> Callable[[list[Record]], str]:
    """KLUE's TSV: a line of column names, and per sentence its own header, its rows, an empty line."""

    def form(records: list[Record]) -> str:
        blocks = ("\n".join([record.raw[0], *map("\t".join, record.raw[1]), "", ""]) for record in records)
        return f"{head}\n{''.join(blocks)}"

    return form


def _rows(records: list[Record]) -> str:
    return "".join("\t".join(record.raw) + "\n" for record in records)


def _blocks(records: list[Record]) -> str:
    return "".join("".join("\t".join(row) + "\n" for row in record.raw) + "\n" for record in records)


def _lines(records: list[Record]) -> str:
    return "".join(json.dumps(record.raw, ensure_ascii=False) + "\n" for record in records)


def _list(records: list[Record]) -> str:
    return _dump([record.raw for record in records])


def _by_key(records: list[Record]) -> str:
    return _dump({record.key: record.raw for record in records})


_FORMS: dict[str, tuple[str, Callable[[list[Record]], str]]] = {
    "klue_ner": (".tsv", _sentences("## CHAR\tNE_TAG")),
    "klue_dp": (".tsv", _sentences("## INDEX\tWORD_FORM\tLEMMA\tPOS\tHEAD\tDEPREL")),
    "json_list": (".json", _list),
    "klue_re": (".json", _list),
    "klue_wos": (".json", _list),
    "pubmedqa": (".json", _by_key),
    "tsv": (".txt", _rows),
    "mentions": (".jsonl", _lines),
    "iob": (".tsv", _blocks),
}


def _squad(task: Task, data: Path) -> dict[str, Any]:
    """The split file of a reading task with its held-out paragraphs only."""
    source = next(source for source in task.sources if "percent" in source)
    whole = json.loads((data / source["file"]).read_text(encoding="utf-8"))
    articles = []
    for article in whole["data"]:
        paragraphs = [
            paragraph
            for paragraph in article["paragraphs"]
            if held_out(paragraph["context"] if source["key"] == "context" else article["title"], source["percent"])
        ]
        if paragraphs:
            articles.append({**article, "paragraphs": paragraphs})
    return {"version": whole.get("version", "") + " held-out part", "data": articles}
