"""The command that makes keys: what it prints, what it writes, and what the server then finds."""

from __future__ import annotations

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from time import sleep

import pytest

from service import access, keys
from service.access import File, Keys
from service.errors import Unauthorized
from service.keys import main, moment


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys.json"


def made(path: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["new", *arguments, "--file", str(path)]) == 0
    return capsys.readouterr().out.strip()


def test_a_new_key_is_printed_once_and_only_its_hash_is_written(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = made(path, capsys, "team-a")
    assert Keys(path).find(text).id == "team-a"
    assert text.rpartition("_")[2] not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert main(["list", "--file", str(path)]) == 0
    assert json.loads(capsys.readouterr().out) == {"id": "team-a", "role": "caller"}


def test_everything_that_a_key_may_have(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = "--role admin --bundles klue-ner,klue-nli --rate 50 --burst 100 --expires 2030-01-31T00:00:00Z"
    made(path, capsys, "ops", *options.split())
    main(["list", "--file", str(path)])
    assert json.loads(capsys.readouterr().out) == {
        "id": "ops",
        "role": "admin",
        "bundles": ["klue-ner", "klue-nli"],
        "rate": 50,
        "burst": 100,
        "expires": "2030-01-31T00:00:00Z",
    }


def test_a_time_is_days_from_now_or_a_moment_of_utc() -> None:
    assert (moment("90d") - datetime.now(UTC)).total_seconds() == pytest.approx(90 * 86400, abs=5)
    assert moment("2030-01-31") == datetime(2030, 1, 31, tzinfo=UTC)


def test_a_file_keeps_its_mode_and_its_other_keys(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = made(path, capsys, "old")
    path.chmod(0o640)
    new = made(path, capsys, "new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert main(["remove", "old", "--file", str(path)]) == 0
    found = Keys(path)
    assert found.find(new).id == "new"
    with pytest.raises(Unauthorized):
        found.find(old)
    assert set(path.parent.iterdir()) == {path}


def test_commands_at_the_same_time_undo_nothing_of_each_other(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each writes the file as it read it: a key that was removed meanwhile would come back."""
    made(path, capsys, "shop")

    def slowly(path: Path) -> File:
        found = access.read(path)
        sleep(0.2)
        return found

    monkeypatch.setattr(keys, "read", slowly)
    commands = [["remove", "shop"], ["new", "x"], ["new", "y"]]
    with ThreadPoolExecutor() as pool:
        assert list(pool.map(main, [[*command, "--file", str(path)] for command in commands])) == [0, 0, 0]
    assert {entry.id for entry in access.read(path).keys} == {"x", "y"}


def test_a_link_to_the_file_stays_a_link(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    link = path.with_name("link.json")
    link.symlink_to(path)
    text = made(link, capsys, "a")
    assert link.is_symlink()
    assert Keys(path).find(text).id == "a"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["new", "Team A"], "cannot be an id"),
        (["new", "there"], "same id"),
        (["new", "a", "--burst", "5"], "a burst needs a rate"),
        (["new", "a", "--rate", "-1"], "greater than or equal to 0.000001"),
        (["new", "a", "--rate", "inf"], "finite"),
        (["new", "a", "--rate", "nan"], "finite"),
        (["remove", "nobody"], "has no key 'nobody'"),
    ],
)
def test_what_cannot_be_is_said_and_changes_nothing(
    path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], problem: str
) -> None:
    made(path, capsys, "there")
    before = path.read_bytes()
    assert main([*arguments, "--file", str(path)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert problem in err
    assert path.read_bytes() == before


@pytest.mark.parametrize("text", ["99999999d", "999999999999999d", "tomorrow"])
def test_a_moment_that_cannot_be_is_no_moment(text: str, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["new", "a", "--expires", text, "--file", str(path)])
    assert "--expires: invalid moment" in capsys.readouterr().err


def test_the_file_may_be_named_by_the_servers_own_variable(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NLU_KEYS_FILE", raising=False)
    with pytest.raises(SystemExit):
        main(["list"])
    assert "NLU_KEYS_FILE" in capsys.readouterr().err
    monkeypatch.setenv("NLU_KEYS_FILE", str(path))
    assert main(["new", "a"]) == 0
    assert path.is_file()
