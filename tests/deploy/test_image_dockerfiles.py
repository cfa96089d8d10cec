"""What each image of deploy/docker promises, by its Dockerfile, and that both servers differ only as meant."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from deploy.docker.dockerfile import Context, DockerfileError, Stage, chain, environment, parse, substitute

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "deploy/docker"
STAGES = {name: parse((DOCKER / f"Dockerfile.{name}").read_text(encoding="utf-8")) for name in ("cpu", "gpu")}
images = pytest.mark.parametrize("stages", STAGES.values(), ids=STAGES.keys())


def text(stage: Stage, word: str) -> str:
    step = stage.last(word)
    assert step is not None
    return step.text


@images
def test_the_base_is_pinned_and_the_same_everywhere(stages: list[Stage]) -> None:
    assert stages[0].base == "debian:12.12-slim"
    assert {stage.base for stage in stages[1:]} == {"python"}


@images
def test_it_runs_as_a_number_that_is_not_root(stages: list[Stage]) -> None:
    """Kubernetes cannot tell whether a user that is a name is root."""
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", text(stages[-1], "USER"))
    words = [step.word for step in stages[-1].steps]
    assert "RUN" not in words[words.index("USER") :]


@images
def test_it_hears_signals_itself_and_says_how_it_is(stages: list[Stage]) -> None:
    assert json.loads(text(stages[-1], "CMD"))[:3] == ["bentoml", "serve", "service.app:NLU"]
    assert text(stages[-1], "STOPSIGNAL") == "SIGTERM"
    assert "/readyz" in text(stages[-1], "HEALTHCHECK")
    assert text(stages[-1], "EXPOSE") == environment(chain(stages))["BENTOML_PORT"]


@images
def test_nothing_is_left_of_installing(stages: list[Stage]) -> None:
    """Lists and caches of packages, pip, and whatever a compiler needs."""
    kept = {stage.name for stage in chain(stages)}
    assert kept == {"python", "server"}
    for stage in stages:
        for step in stage.every("RUN"):
            if stage.name in kept and "apt-get install" in step.text:
                assert "rm -rf /var/lib/apt/lists/*" in step.text
                assert "apt-get clean" in step.text
            if "pip" in step.text and "pip install" not in step.text and "apt-get" not in step.text:
                assert "--no-cache-dir --only-binary=:all:" in step.text
            assert "build-essential" not in step.text
            assert "--no-install-recommends" in step.text or "apt-get install" not in step.text


@images
def test_wheels_come_before_code_and_code_brings_no_leftovers(stages: list[Stage]) -> None:
    sources = [step.arguments()[0] for step in stages[-1].every("COPY")]
    assert sources == ["/opt/venv", "service"]
    files = Context(ROOT).files("service")
    assert "service/app.py" in files
    assert "service/playground/static/index.html" in files
    assert not [path for path in files if "__pycache__" in path or path.endswith(".pyc")]


@images
def test_nothing_else_is_sent_to_the_engine(stages: list[Stage]) -> None:
    context = Context(ROOT)
    sources = {step.arguments()[0] for stage in stages for step in stage.every("COPY") if "from" not in step.flags}
    assert all(context.files(source) for source in sources)
    assert not any(map(context.holds, ("tests/conftest.py", "demo/demo.yaml", ".git/HEAD", "build/x", "README.md")))


def test_the_gpu_image_is_the_cpu_image_with_other_wheels_and_settings() -> None:
    cpu, gpu = (environment(chain(stages)) for stages in (STAGES["cpu"], STAGES["gpu"]))
    assert gpu.items() - cpu.items() == {
        ("NVIDIA_VISIBLE_DEVICES", "all"),
        ("NVIDIA_DRIVER_CAPABILITIES", "compute,utility"),
        ("NLU_DEVICE", "cuda"),
        ("NLU_THREADS", "2"),
    }
    assert cpu.keys() <= gpu.keys()
    different = [
        (a.text, b.text)
        for one, other in zip(STAGES["cpu"], STAGES["gpu"], strict=True)
        for a, b in zip(one.steps, other.steps, strict=True)
        if a != b and a.word not in {"ENV", "LABEL"}
    ]
    assert different == [
        ("requirements/serve.txt /tmp/requirements.txt", "requirements/serve-gpu.txt /tmp/requirements.txt")
    ]


def pins(name: str) -> dict[str, str]:
    lines = (ROOT / "requirements" / name).read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if not line.startswith("#"))


def test_the_gpu_wheels_are_those_of_the_cpu_but_for_the_runtime() -> None:
    cpu, gpu = pins("serve.txt"), pins("serve-gpu.txt")
    del cpu["onnxruntime"]
    assert cpu.items() <= gpu.items()
    assert {name for name in gpu.keys() - cpu.keys() if not name.startswith("nvidia-")} == {"onnxruntime-gpu"}


def test_bundles_are_one_more_layer_of_any_server() -> None:
    stages = parse((DOCKER / "Dockerfile.bundles").read_text(encoding="utf-8"), {"SERVER": "registry/clueserve:gpu"})
    assert [(stage.base, [step.word for step in stage.steps]) for stage in stages] == [
        ("registry/clueserve:gpu", ["COPY"])
    ]
    assert text(stages[0], "COPY") == f"models {environment(chain(STAGES['cpu']))['BENTOML_HOME']}/models"


def test_a_dockerfile_is_read_as_docker_reads_it() -> None:
    stages = parse('ARG V=1\n# a\nFROM a:${V} AS b\nENV X=1 \\\n    Y="two words"\nFROM b\nCOPY --from=b /x /y\n')
    assert [(stage.name, stage.base) for stage in stages] == [("b", "a:1"), ("1", "b")]
    assert environment(chain(stages)) == {"X": "1", "Y": "two words"}
    (copy,) = stages[1].every("COPY")
    assert (copy.flags, copy.arguments()) == ({"from": "b"}, ["/x", "/y"])
    assert substitute("$X/${X}/$Z", {"X": "1"}) == "1/1/"


@pytest.mark.parametrize("source", ["FROM a\nADD x y", "RUN before", "FROM a\nARG late", "FROM a\nrun x"])
def test_what_is_not_known_is_refused(source: str) -> None:
    with pytest.raises(DockerfileError):
        parse(source)


def test_the_last_rule_of_dockerignore_that_matches_decides(tmp_path: Path) -> None:
    (tmp_path / ".dockerignore").write_text("*\n!kept\n**/*.pyc\n")
    (tmp_path / "kept/deep").mkdir(parents=True)
    for name in ("kept/a.py", "kept/deep/b.pyc", "kept/deep/c.py", "other"):
        (tmp_path / name).touch()
    context = Context(tmp_path)
    assert context.files("kept") == ["kept/a.py", "kept/deep/c.py"]
    with pytest.raises(DockerfileError, match="nothing of it"):
        context.files("other")
