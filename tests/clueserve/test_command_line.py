"""`clueserve` as a person meets it: what is asked, what is shown, what a mistake is told."""

from __future__ import annotations

import json
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from flaky_server import Flaky, Say, entry, nowhere, refusal

from clueserve.answers import answer
from clueserve.cli import COMMANDS, main, serve
from clueserve.cli.draw import page
from clueserve.cli.fields import Misuse, example, item
from clueserve.cli.paper import Paper, bar, table, width
from clueserve.models import Model, catalogue

Out = pytest.CaptureFixture[str]
SPANS = ("start", "end", "type", "text", "score")


def model(name: str, family: str, **example: Any) -> Model:
    limits = {"max_batch_items": 1, "max_body_bytes": 1, "max_text_chars": 1}
    return catalogue({"models": [entry(name, family, **example)], "limits": limits})[name]


@pytest.fixture
def url(flaky: Flaky, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("CLUESERVE_URL", flaky.url)
    return flaky.url


def test_help_lists_every_command(capsys: Out) -> None:
    assert main([]) == main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"\n  {name} " in shown for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str, capsys: Out) -> None:
    with pytest.raises(SystemExit, match="0"):
        main([name, "--help"])
    assert "usage:" in capsys.readouterr().out


def test_an_unknown_command_is_told_with_the_closest(capsys: Out) -> None:
    assert main(["serv"]) == 2
    assert capsys.readouterr().err == "clueserve: there is no command 'serv'; did you mean serve?\n"


def test_the_version_is_that_of_the_distribution(capsys: Out) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("clueserve 0.")


@pytest.mark.parametrize(
    ("family", "shown", "texts", "options", "expected"),
    [
        ("text-classification", {"text": "a"}, ["b"], ["top_k=2"], {"text": "b", "top_k": 2}),
        ("text-classification", {"text": "a"}, [], ["text=b c"], {"text": "b c"}),
        ("pair-classification", {"text": "a", "text_pair": "b"}, ["c", "d"], [], {"text": "c", "text_pair": "d"}),
        ("pair-classification", {"text": "a", "text_pair": "b"}, ["d"], ["text=c"], {"text": "c", "text_pair": "d"}),
        (
            "span-pair-classification",
            {"text": "ab", "subject": {}, "object": {}},
            ["이순신은 여수에", "여수", "이순신"],
            [],
            {"text": "이순신은 여수에", "subject": {"start": 5, "end": 7}, "object": {"start": 0, "end": 3}},
        ),
        (
            "question-answering",
            {"question": "q", "context": "c"},
            ["왜", "글"],
            [],
            {"question": "왜", "context": "글"},
        ),
        (
            "multiple-choice",
            {"context": "c", "question": "q", "choices": []},
            ["c", "q", "a", "b"],
            [],
            {"context": "c", "question": "q", "choices": ["a", "b"]},
        ),
        (
            "multiple-choice",
            {"context": "c", "choices": []},
            ["c", "a", "b"],
            [],
            {"context": "c", "choices": ["a", "b"]},
        ),
        (
            "cloze",
            {"passages": [], "candidates": []},
            ["p", "a", "b"],
            [],
            {"passages": ["p"], "candidates": ["a", "b"]},
        ),
        (
            "dialogue-state",
            {"turns": []},
            ["a", "b", "c"],
            [],
            {
                "turns": [
                    {"role": "user", "text": "a"},
                    {"role": "sys", "text": "b"},
                    {"role": "user", "text": "c"},
                ]
            },
        ),
        ("document-classification", {"text": "a"}, ["b"], [], {"text": "b"}),
        ("document-classification", {"text": "a"}, ["b", "c"], [], {"notes": [{"text": "b"}, {"text": "c"}]}),
        ("dependency-parsing", {"text": "a"}, [], ['words=["나는","간다"]'], {"words": ["나는", "간다"]}),
    ],
)
def test_texts_fill_the_fields_of_a_family_in_order(
    family: str, shown: Any, texts: list[str], options: list[str], expected: Any
) -> None:
    assert item(model("m", family, **shown), texts, options) == expected


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        (["a"], [], "m .* takes text, subject, object. For example:"),
        ([], [], "takes text, subject, object"),
        (["a", "a", "a", "a"], [], "takes text"),
        (["ab", "a", "x"], [], "the object 'x' does not stand in the text"),
        (["ab", "a", "b"], ["offset_unit=byte"], "give --field subject="),
        (["ab", "a", "b"], ["top_k"], "key=value"),
    ],
)
def test_a_request_that_cannot_be_meant_is_explained(texts: list[str], options: list[str], message: str) -> None:
    span = {"start": 0, "end": 1}
    with pytest.raises(Misuse, match=message):
        item(model("m", "span-pair-classification", text="ab", subject=span, object=span), texts, options)


def test_the_example_of_a_model_is_a_command_that_asks_it() -> None:
    shown = {"text": "이순신은 여수에", "subject": {"start": 0, "end": 3}, "object": {"start": 5, "end": 7}, "top_k": 1}
    assert example(model("re", "span-pair-classification", **shown)) == (
        "clueserve ask re '이순신은 여수에' '이순신' '여수' --field top_k=1"
    )
    turns = {"turns": [{"role": "user", "text": "a b"}]}
    assert example(model("wos", "dialogue-state", **turns)) == "clueserve ask wos 'a b'"
    assert example(model("dp", "dependency-parsing", words=["a"])) == """clueserve ask dp --field 'words=["a"]'"""


def test_a_model_is_asked_and_its_answer_shown(flaky: Flaky, url: str, capsys: Out) -> None:
    assert main(["ask", "news", "서울", "--field", "top_k=1"]) == 0
    assert capsys.readouterr() == ("서울  ███████████████       0.750\n", "")
    assert flaky.posts[0].body == {"text": "서울", "top_k": 1}


def test_json_is_the_servers_own(url: str, capsys: Out) -> None:
    assert main(["ask", "--json", "news", "서울"]) == 0
    shown = capsys.readouterr().out
    assert json.loads(shown)["label"] == "서울"
    assert shown.count("\n") == 1
    assert "서울" in shown


def test_a_dash_reads_a_text_from_standard_input(
    flaky: Flaky, url: str, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", StringIO("긴 글\n둘째 줄\n"))
    assert main(["ask", "news", "-"]) == 0
    assert flaky.posts[0].body == {"text": "긴 글\n둘째 줄"}
    assert main(["ask", "pair", "-", "-"]) == 2
    assert "standard input" in capsys.readouterr().err


def test_an_empty_text_is_the_servers_to_refuse(url: str, capsys: Out) -> None:
    assert main(["ask", "news", "empty"]) == 1
    assert main(["ask", "news", ""]) == 0


def test_parse_shows_every_task(flaky: Flaky, url: str, capsys: Out) -> None:
    assert main(["parse", "글", "empty", "--tasks", "news, topic"]) == 0
    shown = capsys.readouterr().out
    assert [line for line in shown.splitlines() if line in ("1: 글", "2: empty", "news", "topic")] == [
        "1: 글",
        "news",
        "topic",
        "2: empty",
        "news",
        "topic",
    ]
    assert "text.1: the text is empty (empty_text)" in shown
    assert main(["parse", "글", "--tasks", "news", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["news"]["label"] == "글"


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_parse_that_got_nothing_but_errors_has_failed(url: str, capsys: Out, options: list[str]) -> None:
    assert main(["parse", "empty", "empty", "--tasks", "news,topic", *options]) == 1
    assert capsys.readouterr().out.count("empty_text") == 4
    assert main(["parse", "empty", "글", "--tasks", "news,topic", *options]) == 0


def test_models_are_listed_and_one_is_shown_how_to_ask(flaky: Flaky, url: str, capsys: Out) -> None:
    flaky.models[0]["ready"] = False
    assert main(["models"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert rows[0].split() == ["model", "family", "language", "suite"]
    assert rows[1].split() == ["news", "text-classification", "ko", "klue/ynat", "not", "ready"]
    assert rows[-1] == "  clueserve ask news '오늘'"
    assert main(["models", "--json"]) == 0
    assert [one["name"] for one in json.loads(capsys.readouterr().out)] == ["news", "topic", "pair"]


def test_a_server_that_lists_no_model_says_so(flaky: Flaky, url: str, capsys: Out) -> None:
    flaky.models.clear()
    assert main(["models"]) == 0
    assert capsys.readouterr() == ("no models: the server has none, or none for this key\n", "")
    assert main(["models", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert main(["ask", "news", "a"]) == 1
    assert capsys.readouterr().err.startswith("clueserve ask: the server has no model 'news'; there are none\n")


def test_no_server_is_told_with_what_to_do(capsys: Out) -> None:
    assert main(["ask", "news", "a", "--url", nowhere()]) == 1
    shown = capsys.readouterr().err
    assert "Connection refused" in shown
    assert "clueserve serve" in shown
    assert main(["models", "--url", "ftp://host"]) == 2
    assert "--url" in capsys.readouterr().err


def test_a_key_comes_from_the_environment(flaky: Flaky, url: str, capsys: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    flaky.lists.append(refusal(401, "unauthorized"))
    assert main(["ask", "news", "a"]) == 1
    assert "Set CLUESERVE_KEY" in capsys.readouterr().err
    monkeypatch.setenv("CLUESERVE_KEY", "clue_k")
    assert main(["ask", "news", "a"]) == 0
    assert "Bearer clue_k" in flaky.posts[0].headers.values()


def test_a_refusal_is_told_in_a_line(flaky: Flaky, url: str, capsys: Out) -> None:
    assert main(["ask", "newz", "a"]) == 1
    assert "did you mean news?" in capsys.readouterr().err
    flaky.script.append(refusal(422, "empty_text"))
    assert main(["ask", "news", "a"]) == 1
    assert capsys.readouterr().err == "clueserve ask: empty_text! (empty_text)\n"
    assert main(["ask", "pair", "a"]) == 2
    assert "takes text, text_pair. For example:\n  clueserve ask pair a b" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "missing", "extra"),
    [
        (["ask", "news", "a"], "httpx", "client"),
        (["serve"], "bentoml", "cpu"),
        (["export", "x", "--suite", "klue/ner"], "torch", "export"),
        (["bench", "load"], "yaml", "bench"),
    ],
)
def test_what_is_not_installed_is_told_with_how_to_install_it(arguments: list[str], missing: str, extra: str) -> None:
    hide = f"""
import sys
class Hidden:
    def find_spec(self, name, *_):
        if name == {missing!r}:
            raise ModuleNotFoundError(name={missing!r})
sys.meta_path.insert(0, Hidden())
from clueserve.cli import main
sys.exit(main({arguments!r}))
"""
    ran = subprocess.run(
        [sys.executable, "-c", hide], check=False, capture_output=True, text=True, cwd=Path(__file__).parents[2]
    )
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == (
        f"clueserve {arguments[0]} needs {missing}, which is not installed; "
        f"in a clone of the repository: pip install -e '.[{extra}]'\n"
    )


def test_serve_runs_bentoml_with_what_our_server_needs(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NLU_MODELS", "before")
    command, environment = serve.prepared(["klue-ner", "x=klue-nli:1", "--port", "8080", "--ssl-keyfile", "k"])
    assert command == [
        *(sys.executable, "-m", "bentoml", "serve", "service.app:NLU", "--host", "127.0.0.1"),
        *("--port", "8080", "--ssl-keyfile", "k"),
    ]
    assert environment["NLU_MODELS"] == "klue-ner,x=klue-nli:1"
    assert serve.prepared([])[1]["NLU_MODELS"] == "before"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "bundle.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    assert serve.prepared(["mine", "a=mine"])[1]["NLU_MODELS"] == "./mine,a=./mine"


@pytest.mark.parametrize(
    ("family", "request_", "raw", "expected"),
    [
        (
            "span-classification",
            {"text": "중국은행에 갔다"},
            {
                "entities": [
                    dict(zip(SPANS, s, strict=True)) for s in [(0, 4, "OG", "중국은행", 0.9), (0, 2, "LC", "중국", 0.8)]
                ]
            },
            ["[[중국 LC]은행 OG]에 갔다", "", "OG  중국은행  0-4  0.900", "LC  중국      0-2  0.800"],
        ),
        ("token-classification", {"text": "네"}, {"entities": [], "tags": []}, ["네", "", "no entities"]),
        (
            "question-answering",
            {"question": "q", "context": "앞 서울 뒤"},
            {"answer": {"text": "서울", "start": 2, "end": 4, "score": 0.5}, "null_score": None, "answers": []},
            ["서울  0.500", "", "앞 [서울] 뒤"],
        ),
        (
            "question-answering",
            {"question": "q", "context": "c"},
            {"answer": None, "null_score": 0.9, "answers": []},
            ["no answer in the context  0.900"],
        ),
        (
            "dependency-parsing",
            {"text": "나는 새 책을 샀다"},
            {
                "words": [
                    {"index": i, "form": f, "start": 0, "end": 0, "head": h, "relation": r, "score": 1.0}
                    for i, f, h, r in [
                        (1, "나는", 4, "SBJ"),
                        (2, "새", 3, "DP"),
                        (3, "책을", 4, "OBJ"),
                        (4, "샀다", 0, "VP"),
                    ]
                ]
            },
            ["샀다  VP", "├── 나는  SBJ", "└── 책을  OBJ", "    └── 새  DP"],
        ),
        (
            "dialogue-state",
            {"turns": []},
            {"state": {"지역": "서울"}, "slots": [{"slot": "지역", "value": "서울", "score": 0.5}]},
            ["지역  서울  0.500"],
        ),
        ("dialogue-state", {"turns": []}, {"state": {}, "slots": []}, ["no slot is filled"]),
        (
            "triple-extraction",
            {"text": "a"},
            {
                "triples": [
                    {
                        "subject": {"text": "이순신", "start": 0, "end": 3, "type": "PER"},
                        "predicate": "per:place",
                        "object": {"text": "여수", "start": 0, "end": 2, "type": "LOC"},
                        "score": 0.5,
                    }
                ]
            },
            ["이순신 PER  ── per:place →  여수 LOC  0.500"],
        ),
        (
            "multiple-choice",
            {},
            {
                "choice": 1,
                "text": "b",
                "score": 1.0,
                "scores": [{"choice": 0, "text": "a", "score": 0.0}, {"choice": 1, "text": "b", "score": 1.0}],
            },
            ["   a  " + " " * 20 + "  0.000", ">  b  " + "█" * 20 + "  1.000"],
        ),
        (
            "cloze",
            {},
            {
                "blanks": [
                    {"blank": "#1#", "passage": 0, "start": 0, "end": 3, "choice": 0, "text": "a", "scores": [0.75]}
                ]
            },
            ["#1#  a  0.750"],
        ),
        (
            "term-normalization",
            {"text": "a"},
            {
                "terms": [{"name": "A", "code": "J06", "score": 0.5}],
                "candidates": [{"name": "A", "code": "J06", "score": 0.5}, {"name": "B", "code": None, "score": 0.25}],
            },
            ["A  J06  0.500", "B       0.250"],
        ),
        ("poetry", {}, {}, ["{", '  "truncated": false,', '  "tokens": 3', "}"]),
    ],
)
def test_an_answer_is_drawn_for_people(family: str, request_: Any, raw: Any, expected: list[str]) -> None:
    drawn = page(answer(family, raw | {"truncated": False, "tokens": 3}), request_, Paper(colour=False))
    assert drawn.splitlines() == expected


def test_classes_are_bars_and_a_number_is_a_number() -> None:
    scores = [{"label": f"l{i}", "score": 0.5} for i in range(12)]
    base = {"label": "l0", "score": 0.5, "scores": [], "labels": [], "value": None, "truncated": True, "tokens": 3}
    many = page(answer("text-classification", base | {"scores": scores}), {}, Paper(colour=False)).splitlines()
    assert many[10] == "and 2 more; --json lists them"
    number = answer("pair-classification", base | {"value": 3.5, "label": "positive"})
    assert page(number, {}, Paper(colour=False)).splitlines()[0] == "3.5  positive"
    assert "no label past the threshold" in page(answer("text-classification", base), {}, Paper(colour=False))


def test_who_sits_at_a_terminal_is_told_how_long_it_took_and_everybody_what_was_not_read(
    flaky: Flaky, url: str, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = flaky.cell("a", "text") | {"truncated": True}
    flaky.script.append(Say(200, cut))
    assert main(["ask", "news", "a"]) == 0
    assert capsys.readouterr().err == "1 tokens, the rest of the text is past the model's limit and was not read\n"
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert main(["ask", "news", "서울"]) == 0
    assert capsys.readouterr().err == "2 tokens, queue 1.5 ms, tokenize 0.5 ms, inference 20.0 ms\n"
    flaky.script.append(Say(200, {"news": [cut]}))
    assert main(["parse", "a", "--tasks", "news"]) == 0
    assert "was not read" in capsys.readouterr().out


def test_offsets_of_another_unit_are_not_drawn_into_the_text() -> None:
    raw = {"entities": [dict(zip(SPANS, (3, 9, "LC", "서울", 0.5), strict=True))], "truncated": False, "tokens": 3}
    drawn = page(answer("token-classification", raw), {"text": "a 서울", "offset_unit": "byte"}, Paper(colour=False))
    assert drawn.splitlines() == ["", "LC  서울  3-9  0.500"]


def test_columns_stand_under_each_other_whatever_the_script() -> None:
    assert width("서울 abc") == 8
    assert width("e\u0301") == 1
    assert table([["서울", "1"], ["a", "2"]]) == ["서울  1", "a     2"]
    red = Paper(colour=True).alarm("서")
    assert red != "서"
    assert width(red) == 2
    assert len({bar(0), bar(0.5), bar(1)}) == 3
    assert {len(bar(n / 40)) for n in range(41)} == {20}


def test_colours_are_for_terminals_that_want_them(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert Paper.of(Terminal()).colour
    assert not Paper.of(StringIO()).colour
    monkeypatch.setenv("NO_COLOR", "1")
    assert not Paper.of(Terminal()).colour
