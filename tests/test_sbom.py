"""The list of what a server consists of: the pinned packages, each under a licence that is known and allowed."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
spec = importlib.util.spec_from_file_location("sbom", ROOT / "requirements" / "sbom.py")
assert spec
assert spec.loader
sbom: Any = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sbom)


def component(name: str, version: str, *licences: str) -> dict[str, Any]:
    return {"name": name, "version": version, "bom-ref": name, "licenses": [{"license": {"id": x}} for x in licences]}


@pytest.fixture
def whole() -> dict[str, Any]:
    """An environment's list: a server's packages, and one that only an exporter needs."""
    return {
        "metadata": {"component": {"bom-ref": "root"}},
        "components": [
            component("Typing_Extensions", "4.1", "PSF-2.0"),
            component("torch", "2.1+cpu", "BSD-3-Clause"),
            component("simple-di", "0.1"),
        ],
        "dependencies": [
            {"ref": "root", "dependsOn": ["torch", "Typing_Extensions"]},
            {"ref": "Typing_Extensions"},
            {"ref": "torch"},
        ],
    }


PINS = {"typing-extensions": "4.1", "simple-di": "0.1"}


def test_only_what_is_pinned_for_a_server_stays(whole: dict[str, Any]) -> None:
    reduced = sbom.reduce(whole, PINS)
    assert [c["name"] for c in reduced["components"]] == ["Typing_Extensions", "simple-di"]
    assert reduced["dependencies"] == [
        {"ref": "root", "dependsOn": ["Typing_Extensions"]},
        {"ref": "Typing_Extensions", "dependsOn": []},
    ]
    assert sbom.problems(reduced, PINS) == []


def test_what_is_missing_or_another_version_is_named(whole: dict[str, Any]) -> None:
    pins = PINS | {"typing-extensions": "4.2", "numpy": "2.0"}
    assert sbom.problems(sbom.reduce(whole, pins), pins) == [
        "numpy==2.0 is not installed",
        "typing-extensions is pinned to 4.2, but 4.1 is installed",
    ]


@pytest.mark.parametrize(
    ("stated", "fine"),
    [
        (["MIT"], True),
        (["MPL-2.0 AND MIT"], True),
        (["GPL-3.0-only OR MIT"], True),
        (["Apache-2.0", "License :: OSI Approved :: Apache Software License"], True),
        (["GPL-3.0-only"], False),
        (["MIT AND AGPL-3.0-only"], False),
        (["MIT", "License :: OSI Approved :: GNU General Public License v3 (GPLv3)"], False),
        (["Proprietary"], False),
        ([], False),
    ],
)
def test_a_licence_is_allowed_or_not(stated: list[str], fine: bool) -> None:
    assert sbom.allowed(stated) is fine


def test_the_pins_of_a_server_are_read() -> None:
    pins = sbom.read_pins(ROOT / "requirements" / "serve.txt")
    assert {"bentoml", "onnxruntime", "tokenizers", "typing-extensions"} <= pins.keys()


def test_the_command_writes_the_list_and_fails_for_what_is_not_as_pinned(
    tmp_path: Path, whole: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "whole.json").write_text(json.dumps(whole))
    assert sbom.main(str(tmp_path / "whole.json"), str(tmp_path / "out.json")) == 1
    assert "bentoml==" in capsys.readouterr().out
    assert "torch" not in (tmp_path / "out.json").read_text()
