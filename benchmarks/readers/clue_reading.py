"""CLUE's reading comprehension: passages with questions (CMRC 2018, DRCD), idioms (ChID), choices (C3)."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

from benchmarks.readers.files import json_file, lines, need
from benchmarks.records import ReaderError, Record
from suites import Suite

BLANK = re.compile(r"#idiom\d+#")


def passages(path: Path, suite: Suite) -> list[Record]:
    """SQuAD's shape; gold is every accepted answer, whatever its offset says: many of them are wrong or -1.

    Test files stand placeholders where the answers would be, all of them at -1: gold None.
    """
    found: list[Record] = []
    for number, article in enumerate(need(json_file(path), "data", list, path, "the file")):
        for paragraph in need(article, "paragraphs", list, path, f"article {number}"):
            context = need(paragraph, "context", str, path, f"article {number}")
            for qa in need(paragraph, "qas", list, path, f"article {number}"):
                key = need(qa, "id", str, path, f"article {number}")
                where = f"question {key}"
                item = {"question": need(qa, "question", str, path, where), "context": context}
                answers = need(qa, "answers", list, path, where) if "answers" in qa else []
                known = any(need(answer, "answer_start", int, path, where) >= 0 for answer in answers)
                gold = [need(answer, "text", str, path, where) for answer in answers] if known else None
                found.append(Record(key, item, gold))
    return found


def idioms(path: Path, suite: Suite) -> list[Record]:
    """ChID: a record is one item with all its blanks, since an idiom is used once; gold is `{blank: candidate}`.

    Lines are JSON or Python literals. Answers are beside: `dev.json` has `dev_answer.json`, test files have none.
    """
    beside = path.with_name(f"{path.stem}_answer{path.suffix}")
    answers = json_file(beside) if beside.exists() else None
    found: list[Record] = []
    for number, line in lines(path):
        if not line.strip():
            continue
        where = f"line {number}"
        record = _literal(line, path, where)
        item = {
            "passages": need(record, "content", list, path, where),
            "candidates": need(record, "candidates", list, path, where),
        }
        if not all(isinstance(text, str) for text in [*item["passages"], *item["candidates"]]):
            raise ReaderError(path, where, "expected passages and candidates to be texts")
        blanks = [blank for passage in item["passages"] for blank in BLANK.findall(passage)]
        if not blanks:
            raise ReaderError(path, where, "expected a blank such as #idiom000001#")
        gold = None if answers is None else {b: need(answers, b, int, beside, where) for b in blanks}
        for blank, choice in (gold or {}).items():
            if not 0 <= choice < len(item["candidates"]):
                raise ReaderError(beside, where, f"expected {blank} to be the index of a candidate, found {choice}")
        found.append(Record(str(len(found)), item, gold))
    return found


def _literal(line: str, path: Path, where: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        try:
            return ast.literal_eval(line.strip())
        except (ValueError, SyntaxError, TypeError) as error:
            raise ReaderError(path, where, f"expected JSON or a Python literal: {error}") from None


def choices(path: Path, suite: Suite) -> list[Record]:
    """C3: `[lines, questions, id]` an entry; one record a question, its lines joined by line feeds.

    Gold is the index of the choice that equals the answer but for case, of equal ones the last, as the baseline has it.
    """
    data = json_file(path)
    if not isinstance(data, list):
        raise ReaderError(path, "the file", "expected a list of texts with their questions")
    found: list[Record] = []
    for number, entry in enumerate(data):
        where = f"entry {number}"
        if not (isinstance(entry, list) and len(entry) >= 2 and all(isinstance(part, list) for part in entry[:2])):
            raise ReaderError(path, where, "expected [lines, questions, id]")
        if not all(isinstance(line, str) for line in entry[0]):
            raise ReaderError(path, where, "expected the lines to be texts")
        for question in entry[1]:
            offered = need(question, "choice", list, path, where)
            item = {"context": "\n".join(entry[0]), "question": need(question, "question", str, path, where)}
            key = str(question.get("id", len(found)))
            found.append(Record(key, item | {"choices": offered}, _chosen(question, offered, path, where)))
    return found


def _chosen(question: dict[str, Any], offered: list[Any], path: Path, where: str) -> int | None:
    if not all(isinstance(choice, str) for choice in offered):
        raise ReaderError(path, where, "expected the choices to be texts")
    if "answer" not in question:
        return None
    answer = need(question, "answer", str, path, where).lower()
    equal = [i for i, choice in enumerate(offered) if choice.lower() == answer]
    if not equal:
        raise ReaderError(path, where, f"expected the answer among the choices, found {answer!r:.80}")
    return equal[-1]


READERS = {
    "clue/cmrc2018": passages,
    "clue/drcd": passages,
    "clue/chid": idioms,
    "clue/c3": choices,
}
