"""What the recipe reads: the split, the held-out part, dialogues turn by turn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from recipe_tasks import OFFICIAL, own_tasks

from demo import TRUNK
from demo.recipe import dialogue, heldout, records, splits
from demo.recipe.tasks import Task

transformers = pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return transformers.AutoTokenizer.from_pretrained(TRUNK)


def test_no_text_of_a_held_out_record_trains(tmp_path: Path) -> None:
    rows = [{"guid": str(i), "title": f"text {i // 2}", "label": "x"} for i in range(60)]
    (tmp_path / "file.json").write_text(json.dumps(rows), encoding="utf-8")
    source = {"reader": "json_list", "fields": ["title"], "label": "label", "file": "file.json", "key": "guid"}
    task = Task("t", "classes", "klue/ynat", 64, 1, [source | {"percent": 30, "repeat": 2}])
    found = splits.split(task, tmp_path)
    held = {record.texts for record in found.held}
    assert [r.key for r in found.held] == [row["guid"] for row in rows if splits.held_out(row["guid"], 30)]
    assert 0 < len(found.held) < 40
    assert not held & {record.texts for record in found.train}
    assert len(found.used) == 2 * len(found.train)


def test_the_split_never_changes() -> None:
    # sha1("a") starts with 86f7e437, which is 59 modulo 100.
    assert (splits.held_out("a", 59), splits.held_out("a", 60)) == (False, True)


def test_held_out_files_hold_what_the_official_file_holds(tmp_path: Path) -> None:
    chosen = own_tasks(percent=100)
    for path, task in zip(heldout.write(chosen, OFFICIAL, tmp_path), chosen.values(), strict=True):
        source = task.sources[0]
        again = records.read(tmp_path, {**source, "file": path.name})
        assert again == records.read(OFFICIAL, source), task.name


def test_a_dialogue_is_read_turn_by_turn_and_cut_at_the_left(tokenizer: Any) -> None:
    said = [
        {"role": "user", "text": "a b", "state": ["식당-이름-한-글"]},
        {"role": "sys", "text": "c"},
        {"role": "user", "text": "d", "state": []},
    ]
    a, b, c, d = (tokenizer(text, add_special_tokens=False)["input_ids"][0] for text in "abcd")
    first, second = dialogue.turns(said, tokenizer, 64)
    assert first.ids == [0, 2, 2, a, b, 2]
    assert second.ids == [0, 2, a, b, 2, c, 2, d, 2]
    assert first.state == {"식당-이름": "한-글"}
    assert dialogue.turns(said, tokenizer, 6)[1].ids == [0, 2, c, 2, d, 2]
    gates = dialogue.Gates(["none", "any", "ptr"], "none", "ptr")
    wanted = dialogue.targets({"x": "any", "z": "a b"}, ["x", "y", "z"], gates, tokenizer, steps=2)
    assert wanted == {"gates": [1, 0, 2], "slots": [2], "values": [[a, b]]}
    assert [gates.value(i, "v") for i in range(3)] == [None, "any", "v"]
    assert gates.value(2, "none") is None
