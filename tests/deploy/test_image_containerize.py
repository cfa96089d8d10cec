"""What `bentoml containerize` would build: our bentofile.yaml, on a tiny bundle, as BentoML's Dockerfile."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PRINT = "import bentoml.container as c; c.get_containerfile('clueserve:latest', output_path='Dockerfile')"


@pytest.fixture(scope="module")
def bento(bundles: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bento's folder, with the generated Dockerfile beside it."""
    home = tmp_path_factory.mktemp("home")
    (home / "models").mkdir()
    recipe = yaml.safe_load((ROOT / "bentofile.yaml").read_text(encoding="utf-8")) | {"models": []}
    (home / "bentofile.yaml").write_text(yaml.safe_dump(recipe))
    env = {name: value for name, value in os.environ.items() if not name.startswith("NLU_")}
    env |= {"BENTOML_HOME": str(home), "NLU_MODELS": str(bundles["text-classification"]), "PYTHONPATH": str(ROOT)}
    build = [sys.executable, "-m", "bentoml", "build", "-f", str(home / "bentofile.yaml"), str(ROOT)]
    for command, folder in ((build, ROOT), ([sys.executable, "-c", PRINT], home)):
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
    (found,) = [path for path in (home / "bentos/clueserve").iterdir() if path.is_dir()]
    (home / "Dockerfile").rename(found / "Dockerfile.generated")
    return found


@pytest.fixture(scope="module")
def dockerfile(bento: Path) -> str:
    return (bento / "Dockerfile.generated").read_text(encoding="utf-8")


def test_python_is_the_one_that_the_wheels_were_locked_for(dockerfile: str) -> None:
    assert re.findall(r"^FROM (\S+)", dockerfile, re.M) == ["python:3.11-slim"]
    assert re.findall(r"uv venv --python (\S+)", dockerfile) == ["3.11"]


def test_the_service_does_not_run_as_root(dockerfile: str) -> None:
    before, _, after = dockerfile.rpartition("\nUSER bentoml\n")
    assert re.search(r"^ARG BENTO_USER_UID=[1-9]\d*$", before, re.M)
    assert not re.search(r"^(RUN|USER) ", after, re.M)


def test_nothing_is_told_to_bentoml(dockerfile: str) -> None:
    """The command line would tell it of the start before our code is read."""
    assert "ENV BENTOML_DO_NOT_TRACK=$BENTOML_DO_NOT_TRACK" in dockerfile
    assert "ARG BENTOML_DO_NOT_TRACK=True" in dockerfile


def test_it_installs_the_lock(bento: Path, dockerfile: str) -> None:
    assert "env/python/requirements.txt" in dockerfile
    installed = set((bento / "env/python/requirements.txt").read_text(encoding="utf-8").split("\n"))
    lock = [x for x in (ROOT / "requirements/serve.txt").read_text(encoding="utf-8").split("\n") if "==" in x]
    assert set(lock) <= installed


def test_the_bento_holds_the_service_and_nothing_of_the_rest(bento: Path) -> None:
    files = {path.relative_to(bento / "src").as_posix() for path in (bento / "src").rglob("*") if path.is_file()}
    ours = {path.relative_to(ROOT).as_posix() for path in (ROOT / "service").rglob("*.py")}
    assert ours <= files
    assert "service/playground/static/index.html" in files
    rest = {path for path in files if not path.startswith("service/")}
    assert rest == {"README.md", "bentofile.yaml", "requirements/serve.txt"}
