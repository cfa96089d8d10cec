"""Heads for families without data of their own: hand-made records, a tiny trunk, and checkpoints that are exported."""

from __future__ import annotations

import importlib
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import demo
import suites

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from demo.recipe import extra, extra_files, extra_records, model, splits, stage  # noqa: E402  # needs torch
from demo.recipe.records import Record  # noqa: E402

SIZES = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64, "num_hidden_layers": 2}
PLACES = ["臺北", "高雄", "花蓮", "臺南", "宜蘭", "屏東"]
YEARS = ["1901年", "1912年", "1923年", "1934年", "1945年", "1956年"]
NAMES = ["慢性胃炎", "十二指肠溃疡", "前列腺炎", "高血压", "糖尿病", "尿路感染"]


def _squad(context: str, asked: dict[str, str], title: str = "甲") -> list[Record]:
    found = []
    for question, answer in asked.items():
        start = context.index(answer)
        found.append(Record({}, title, (context, question), spans=[(start, start + len(answer), "")]))
    return found


def _article(number: int) -> tuple[str, dict[str, str]]:
    place, year = PLACES[number % 6], YEARS[number // 6 % 6]
    asked = {"在哪裡？": place, "哪一年？": year, "誰設計？": f"王{number}", "幾個月臺？": f"{number + 3}個"}
    return f"第{number}號車站位於{place}，於{year}落成，由王{number}設計，共有{number + 3}個月臺。", asked


def _dataset(key: Callable[[int], str], percent: int, train: int, held: int) -> list[int]:
    """Numbers whose keys give so many training and held-out records."""
    parts: dict[bool, list[int]] = {False: [], True: []}
    number = 0
    while len(parts[False]) < train or len(parts[True]) < held:
        parts[splits.held_out(key(number), percent)].append(number)
        number += 1
    return parts[False][:train] + parts[True][:held]


def _write(path: Path, value: str | list[Any] | dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("data")
    articles = []
    for number in _dataset(lambda n: f"車站{n}", 15, 8, 2):
        paragraphs = []
        for context, asked in (_article(number), _article(number + 7)):
            qas = [
                {"id": f"{number}-{q}", "question": q, "answers": [{"answer_start": context.index(a), "text": a}]}
                for q, a in asked.items()
            ]
            paragraphs.append({"context": context, "qas": qas})
        articles.append({"title": f"車站{number}", "paragraphs": paragraphs})
    _write(root / "CLUE/drcd/DRCD_dev.json", {"data": articles})
    _write(root / "CLUE/drcd/DRCD_test.json", {"data": []})
    pairs = []
    for number in _dataset(lambda n: f"김{n}은 서울에 산다.", 15, 30, 4):
        subject = {"word": f"김{number}", "start_idx": 0, "end_idx": len(str(number)), "type": "PER"}
        start = len(str(number)) + 3
        place = {"word": "서울", "start_idx": start, "end_idx": start + 1, "type": "LOC"}
        label = "no_relation" if number % 3 == 0 else "per:place_of_residence"
        raw = {"guid": str(number), "sentence": f"김{number}은 서울에 산다.", "label": label}
        pairs.append(raw | {"subject_entity": subject, "object_entity": place})
    _write(root / "KLUE/klue-re/klue-re-v1.1_dev.recovered.json", pairs)
    for corpus, field, kind in (("cMedQANER", "type", "disease"), ("cEHRNER", "label", "疾病和诊断")):
        for part, count in (("train", 12), ("test", 4)):
            lines = [_mentions(number, part, field, kind) for number in range(count)]
            _write(root / f"ChineseBLUE/{corpus}/{part}.json", "".join(json.dumps(line) + "\n" for line in lines))
    return root


def _mentions(number: int, part: str, field: str, kind: str) -> dict[str, Any]:
    names = [NAMES[(number + i) % 6] for i in range(1 + number % 3)]
    text, found = f"{part}{number}：", []
    for i, name in enumerate(names):
        text += "、" if i else ""
        found.append({"mention": name, "offset": str(len(text)), field: kind})
        text += name
    return {"text": f"{text}怎么办", "mention_data": found}


@pytest.fixture(scope="module")
def made(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the tiny trunk, the heads that were trained over it, and the held-out files."""
    out = tmp_path_factory.mktemp("extra")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    shutil.copytree(demo.TRUNK, out / "trunk", ignore=shutil.ignore_patterns("*.safetensors"))
    config = transformers.BertConfig.from_pretrained(demo.TRUNK, **SIZES)
    config.save_pretrained(out / "trunk")
    bert = transformers.BertModel(config, add_pooling_layer=False)
    stage._save(bert.state_dict(), out / "trunk/model.safetensors")
    extra.run(out / "trunk", data, out)
    extra_files.stock(out / "heads/cmedqq", "BertForSequenceClassification", model.SequenceHead(32, 2))
    for path in demo.HEADS.rglob("suite.yaml"):
        target = out / "heads" / path.relative_to(demo.HEADS)
        if (out / "heads" / target.relative_to(out / "heads").parts[0]).is_dir():
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(path, target)
    return out


@pytest.fixture
def here(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    module = importlib.import_module("demo.assemble")  # the package has a function of this name
    monkeypatch.setattr(module, "HEADS", made / "heads")
    monkeypatch.setattr(module, "TRUNK", made / "trunk")
    return made


def test_choices_are_the_answer_and_others_that_do_not_hold_it() -> None:
    records = _squad("甲村有山、河、湖、大湖和海。", {"一？": "山", "二？": "河", "三？": "大湖", "四？": "湖"})
    records += _squad("乙村有城。", {"五？": "城"})
    found = {e.item["question"]: e for e in extra_records.choices(records, random.Random(0))}
    assert set(found) == {"一？", "二？", "三？", "四？", "五？"}
    for example in found.values():
        assert len(set(example.item["choices"])) == 4
    chosen = found["三？"].item["choices"]
    assert chosen[found["三？"].gold] == "大湖"
    assert "湖" not in chosen  # a part of the answer is no wrong answer


def test_cloze_blanks_stand_where_the_answers_stood() -> None:
    records = _squad("甲村有山、河、湖。", {"一？": "山", "二？": "湖"})
    records += _squad("乙村有城、塔、橋、路。", {"三？": "城", "四？": "塔", "五？": "橋", "六？": "路"})
    first, second = extra_records.cloze(records, random.Random(0))
    (passage,) = first.item["passages"]
    assert passage == "甲村有#idiom000001#、河、#idiom000002#。"
    words = {blank: first.item["candidates"][choice] for blank, choice in first.gold.items()}
    assert words == {"#idiom000001#": "山", "#idiom000002#": "湖"}
    assert sorted(first.item["candidates"]) == sorted("山湖城塔橋路")
    assert list(second.gold) == [f"#idiom{n:06d}#" for n in (3, 4, 5, 6)]


def test_mentions_with_nothing_but_a_joint_between_are_one_text() -> None:
    text = "患者胃炎、高血压，并糖尿病；后来感冒了又感冒"
    spans = [(text.index(n), text.index(n) + len(n), "d") for n in ("胃炎", "高血压", "糖尿病", "感冒")]
    record = Record({}, "", (text,), spans=[*spans, (0, 2, "other"), (len(text) - 2, len(text), "d")])
    record.spans.sort()
    found = list(extra_records.mentions([record], "d"))
    assert [one.text for one in found] == ["胃炎、高血压，并糖尿病", "感冒", "感冒"]
    assert found[0].names == ["胃炎", "高血压", "糖尿病"]


def test_a_slip_takes_one_character_of_longer_names_and_makes_no_other_name() -> None:
    one = extra_records.Mentions("慢性胃炎、胃炎", [(0, 4), (5, 7)])
    slips = {extra_records.slip(one, ["性胃炎", "慢胃炎", "慢性炎"], random.Random(seed)) for seed in range(20)}
    assert slips == {"慢性胃、胃炎"}


def test_held_out_files_are_in_the_official_formats(made: Path) -> None:
    from benchmarks.readers import READERS

    for name in ("drcd-choice", "drcd-cloze", "klue-triples", "cmed-terms", "cmed-terms-as-written"):
        suite = suites.load(made / f"heads/{name.removesuffix('-as-written')}/suite.yaml")
        records = READERS[suite.reader](made / f"heldout/{name}.json", suite)
        assert records
        assert all(record.gold is not None for record in records)
    triples = [json.loads(line) for line in (made / "heldout/klue-triples.json").read_text().splitlines()]
    assert {t["object"]["@value"] for line in triples for t in line["spo_list"]} <= {"서울"}
    assert sorted((made / "heads/cmed-terms/catalogue.tsv").read_text().splitlines()) == sorted(NAMES)


@pytest.mark.parametrize("name", ["drcd-choice", "drcd-cloze"])
def test_a_choosing_head_is_a_plain_checkpoint(name: str, here: Path, tmp_path: Path) -> None:
    folder = demo.assemble(name, tmp_path)
    _, info = transformers.AutoModelForMultipleChoice.from_pretrained(folder, output_loading_info=True)
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"))


@pytest.mark.parametrize("name", ["klue-triples", "cmed-terms"])
def test_a_pipeline_is_exported_with_its_stages_and_assets(name: str, here: Path, tmp_path: Path) -> None:
    from exporters.demo import fingerprint
    from exporters.export import export
    from service.bundle import Bundle

    before = fingerprint(name)
    source = demo.assemble(name, tmp_path / "checkpoints")
    suite = suites.load(demo.suite_path(name))
    done = export(str(source), suite, name=name, out=tmp_path / "bundles")
    bundle = Bundle(Path(done.place))
    assert list(bundle.stages) == list(suite.stages)
    assert len(bundle.manifest.golden) == 3
    for asset in suite.assets:
        assert bundle.asset(asset).read_bytes() == (here / "heads" / name / asset).read_bytes()
    part = here / "heads" / ("cmedqq" if name == "cmed-terms" else "klue-triples/relations") / "head.safetensors"
    kept = part.read_bytes()
    part.write_bytes(kept[:-1] + bytes([kept[-1] ^ 1]))
    assert fingerprint(name) != before
    part.write_bytes(kept)
    assert fingerprint(name) == before


def test_a_store_filled_by_other_code_is_not_taken_for_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import exporters
    from exporters.demo import fingerprint

    before = fingerprint("klue-ner")
    copy = shutil.copytree(Path(*exporters.__path__), tmp_path / "exporters")
    monkeypatch.setattr(exporters, "__path__", [str(copy)])
    assert fingerprint("klue-ner") == before
    with (copy / "graph.py").open("a") as file:
        file.write("OPSET = 19\n")
    assert fingerprint("klue-ner") != before
