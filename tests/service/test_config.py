"""Settings: what is unknown, wrong or ambiguous ends the start with one line that says what to change."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bentoml
import pytest

from service.config import (
    RESERVED,
    STORE_LABEL,
    Settings,
    find_bundles,
    find_models,
    load_settings,
    open_reference,
    worker_threads,
)
from service.errors import BundleError, ConfigError

Copy = Callable[..., Path]


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"NLU_{name.upper()}", raising=False)


def load(environment: dict[str, str]) -> Settings:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        return load_settings()


def serving(models: str) -> dict[str, Any]:
    return find_bundles(load({"NLU_MODELS": models}))


def test_nothing_set_is_a_server_that_starts() -> None:
    s = load({})
    assert (s.device, s.threads, s.timeout_ms, s.max_wait_ms, s.models) == ("cpu", 0, 60_000, 30_000, "")


def test_every_setting_is_read_from_its_variable() -> None:
    s = load(
        {
            "NLU_MODELS": "a:latest,/srv/b",
            "NLU_DEVICE": "cuda",
            "NLU_WORKERS": "2",
            "NLU_THREADS": "3",
            "NLU_TIMEOUT_MS": "1500",
            "NLU_MAX_WAIT_MS": "250",
            "NLU_TAKE_MS": "2.5",
            "NLU_MAX_BODY_BYTES": "2048",
            "NLU_MAX_TEXT_CHARS": "77",
            "NLU_MAX_BATCH_ITEMS": "5",
            "NLU_MAX_CONNECTIONS": "50",
            "NLU_READ_TIMEOUT_MS": "2000",
            "NLU_DRAIN_MS": "0",
            "NLU_GRACE_MS": "9000",
            "NLU_HANG_MS": "8000",
            "NLU_ADMIN": "true",
            "NLU_LOG_FORMAT": "json",
            "NLU_LOG_REQUESTS": "all",
            "NLU_KEYS_FILE": "/etc/keys.json",
            "NLU_CORS_ORIGINS": "https://a.org",
            "HOME": "/root",
        }
    )
    assert (
        s.model_dump().items()
        >= {
            "models": "a:latest,/srv/b",
            "device": "cuda",
            "workers": 2,
            "threads": 3,
            "timeout_ms": 1500,
            "max_wait_ms": 250,
            "take_ms": 2.5,
            "max_body_bytes": 2048,
            "max_text_chars": 77,
            "max_batch_items": 5,
            "max_connections": 50,
            "read_timeout_ms": 2000,
            "drain_ms": 0,
            "grace_ms": 9000,
            "hang_ms": 8000,
            "admin": True,
            "log_format": "json",
            "log_requests": "all",
            "keys_file": Path("/etc/keys.json"),
            "cors_origins": "https://a.org",
        }.items()
    )


def test_the_process_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NLU_THREADS", "2")
    assert load_settings().threads == 2
    monkeypatch.setenv("NLU_TREADS", "2")
    with pytest.raises(ConfigError, match="NLU_TREADS is not a setting; did you mean NLU_THREADS"):
        load_settings()


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("NLU_MODEL", "did you mean NLU_MODELS?"),
        ("NLU_MAX_WAIT", "did you mean NLU_MAX_WAIT_MS?"),
        ("NLU_TIMEOUT_SECONDS", "NLU_TIMEOUT_MS"),
        ("NLU_ZZZZZZZZ", "is not a setting"),
        ("nlu_models", "is not a setting"),
    ],
)
def test_an_unknown_variable_is_refused_with_the_nearest_one(name: str, hint: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load({name: "x"})
    assert f"{name} is not a setting" in str(refused.value)
    assert hint in str(refused.value)


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("NLU_THREADS", "many", "valid integer"),
        ("NLU_THREADS", "-1", "greater than or equal to 0"),
        ("NLU_WORKERS", "0", "greater than or equal to 1"),
        ("NLU_DEVICE", "gpu", "'cpu', 'cuda' or 'tensorrt'"),
        ("NLU_TIMEOUT_MS", "0", "greater than or equal to 1"),
        ("NLU_TIMEOUT_MS", "1.5", "valid integer"),
        ("NLU_TAKE_MS", "0", "greater than 0"),
        ("NLU_MAX_BODY_BYTES", "10", "greater than or equal to 1024"),
        ("NLU_MAX_TEXT_CHARS", "", "valid integer"),
    ],
)
def test_a_value_that_cannot_be_names_its_variable(name: str, value: str, why: str) -> None:
    with pytest.raises(ConfigError, match=f"^{name}: .*{why}"):
        load({name: value})


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(ConfigError, match=r"NLU_DEVISE is not.*; NLU_THREADS: .*; NLU_TAKE_MS: "):
        load({"NLU_THREADS": "x", "NLU_DEVISE": "cpu", "NLU_TAKE_MS": "-3"})


def test_folders_are_served_under_their_own_name_or_an_alias(copy_of: Copy) -> None:
    topic, entities = copy_of("klue/ynat"), copy_of("klue/ner")
    assert list(serving(f"{topic}, {entities} ,")) == ["klue-ynat", "klue-ner"]
    found = serving(f"news={topic},again = {topic}")
    assert list(found) == ["news", "again"]
    assert found["news"].folder == found["again"].folder == topic


def test_one_route_for_two_bundles_is_refused(copy_of: Copy) -> None:
    topic = copy_of("klue/ynat")
    with pytest.raises(ConfigError, match="NLU_MODELS names 'klue-ynat' twice; give one of them another alias"):
        serving(f"{topic},{topic}")
    with pytest.raises(ConfigError, match="'a' twice"):
        serving(f"a={topic},a={copy_of('klue/ner')}")


def test_versions_of_one_route_share_its_items(copy_of: Copy) -> None:
    first, second = copy_of("klue/ynat"), copy_of("klue/ynat", provenance={"again": True})
    models = find_models(load({"NLU_MODELS": f"news={first},news={second}@0.25"}))
    assert [(e.folder, e.share) for e in models["news"].versions] == [(first, 0.75), (second, 0.25)]
    assert models["news"].versions[0].version != models["news"].versions[1].version
    assert serving(f"news={second}@.5,news={first}")["news"].folder == second, "of equals the first"


@pytest.mark.parametrize(
    ("form", "why"),
    [
        ("a={0}@0.5", "all but one a share"),
        ("a={0}@0.5,a={1}@0.5", "all but one a share"),
        ("a={0},a={1}@0.7,a={2}@0.7", "together at most 1"),
        ("a={0},a={0}@0.1", "different bundles of one family"),
        ("a={0},a={2}@0.1", "different bundles of one family"),
        ("a={0},a={1}@1.5", "is not a bundle"),
    ],
)
def test_shares_that_cannot_be_are_refused(copy_of: Copy, form: str, why: str) -> None:
    folders = copy_of("klue/ynat"), copy_of("klue/ynat", provenance={"again": True}), copy_of("klue/ner")
    with pytest.raises(BundleError, match=why):
        serving(form.format(*folders))


@pytest.mark.parametrize("alias", sorted(RESERVED | {"a/b", "", "a b", "a?b", "..", "%61", "-a", "뉴스"}))
def test_an_alias_that_cannot_be_a_route_is_refused(copy_of: Copy, alias: str) -> None:
    with pytest.raises(ConfigError, match="cannot be a route"):
        serving(f"{alias}={copy_of('klue/ynat')}")


@pytest.mark.parametrize("page", ["v1", "livez", "readyz", "healthz", "metrics", "docs.json", "schema.json"])
def test_routes_of_pages_are_reserved(page: str) -> None:
    assert page in RESERVED


def test_a_tag_that_is_not_stored_is_named_with_the_way_out() -> None:
    with pytest.raises(ConfigError, match="'no-such-bundle:latest' is not in the BentoML store") as refused:
        serving("no-such-bundle:latest")
    assert "folders are written with a '/'" in str(refused.value)


@pytest.mark.parametrize(
    ("reference", "why"),
    [
        ("klue ynat", "not a valid BentoML tag"),
        ("a" * 300, "not a valid BentoML tag"),
        ("again=", "not a valid BentoML tag"),
        ("..", "not a valid BentoML tag"),
        ("klue-ynat:*", "klue-ynat"),
        ("/srv/" + "a" * 300, "cannot be read: File name too long"),
        ("/srv/a\0b", "is not a bundle"),
    ],
    ids=lambda value: value[:20],
)
def test_a_reference_that_cannot_be_is_refused_with_a_reason(reference: str, why: str) -> None:
    with pytest.raises(BundleError, match=re.escape(why)):
        find_bundles(Settings(models=reference))


@pytest.mark.parametrize("call", ["stat", "read_text", "is_file"])
def test_a_folder_that_may_not_be_read_is_refused_with_a_reason(
    copy_of: Copy, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Root may read everything, so that no such folder can be made here."""
    folder = copy_of("klue/ynat")

    def refused(*_: Any, **__: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, call, refused)
    with pytest.raises(BundleError, match=f"{folder} cannot be read: Permission denied"):
        open_reference(str(folder))


def test_a_store_that_may_not_be_read_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: str) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(bentoml.models, "get", refused)
    with pytest.raises(ConfigError, match=r"'topic:v1': .*Permission denied"):
        open_reference("topic:v1")


def test_a_folder_that_is_no_bundle_is_named(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="is not a bundle"):
        serving(str(tmp_path))


def test_an_empty_store_has_nothing_to_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bentoml.models, "list", lambda: [])
    with pytest.raises(ConfigError, match="no bundle to serve: export one"):
        serving(" ")


def test_the_store_serves_what_carries_our_label_and_nothing_else(bundle_of: Callable[[str], Path]) -> None:
    import shutil

    for name, labels in (("stored-bundle", {STORE_LABEL: "bundle"}), ("somebody-elses", {})):
        with bentoml.models.create(f"{name}:first", labels=labels) as model:
            shutil.copytree(bundle_of("klue/ynat"), model.path, dirs_exist_ok=True)
    found = serving("")
    assert "stored-bundle" in found
    assert "somebody-elses" not in found
    assert found["stored-bundle"].manifest.name == "klue-ynat"
    assert list(serving("stored-bundle:first,other=stored-bundle:latest")) == ["klue-ynat", "other"]


@pytest.mark.parametrize(("cpus", "workers", "threads"), [(2, 1, 2), (2, 2, 1), (1, 4, 1), (16, 3, 5), (16, 1, 16)])
def test_threads_share_the_cpus_among_processes(cpus: int, workers: int, threads: int) -> None:
    assert worker_threads(load({"NLU_WORKERS": str(workers)}), cpus) == threads


def test_threads_that_are_set_are_kept() -> None:
    assert worker_threads(load({"NLU_WORKERS": "2", "NLU_THREADS": "6"}), 2) == 6


@pytest.mark.parametrize("models", [",", " , ,"])
def test_a_list_that_names_nothing_is_no_server(models: str) -> None:
    with pytest.raises(ConfigError, match="no bundle to serve"):
        serving(models)
