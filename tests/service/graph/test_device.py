"""A graph runs on the device that was asked for, all of it, or the server does not start."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import onnx
import onnx.parser
import onnxruntime
import pytest

from service.bundle import Bundle
from service.errors import ConfigError
from service.graph import device as devices
from service.graph.device import Device, left_on_cpu, open_session, require_device
from service.loading import open_graph

WITHOUT_CUDA = pytest.mark.skipif(
    "CUDAExecutionProvider" in onnxruntime.get_available_providers(), reason="CUDA is installed"
)


@dataclass
class Node:
    op_type: str
    domain: str = ""


@dataclass
class Part:
    """Nodes of a graph that one provider got, as ONNX Runtime tells of them."""

    ep_name: str
    nodes: list[Node]

    def get_nodes(self) -> list[Node]:
        return self.nodes


@WITHOUT_CUDA
@pytest.mark.parametrize(("device", "provider"), [("cuda", "CUDAExecutionProvider"), ("tensorrt", "Tensorrt")])
def test_a_device_that_is_not_installed_is_refused_by_name(device: Device, provider: str) -> None:
    with pytest.raises(ConfigError, match=f"'{device}' needs {provider}.*offers.*CPUExecutionProvider.*NLU_DEVICE=cpu"):
        require_device(device)


@WITHOUT_CUDA
def test_a_session_never_runs_on_another_device_than_it_was_asked_to(bundle_of: Callable[..., Path]) -> None:
    graph = bundle_of("klue/ynat") / "model.onnx"
    with pytest.warns(UserWarning, match="CUDAExecutionProvider"), pytest.raises(ConfigError, match="could not start"):
        open_session(graph, "cuda", 1)


def test_a_graph_that_a_device_cannot_run_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'cuda': ONNX Runtime cannot run .*none\.onnx there: "):
        open_session(tmp_path / "none.onnx", "cuda", 1)


def test_sessions_compute_in_the_same_memory(tmp_path: Path) -> None:
    """Each with an arena of its own would keep what its largest run needed: a step of 32 MB here, ten times."""
    code = """if True:
        import sys
        from pathlib import Path
        import numpy as np, psutil
        from service.graph.device import open_session
        rss = lambda: psutil.Process().memory_info().rss / 2**20
        rows = {"x": np.ones((2**23,), dtype=np.float32)}
        opened = [open_session(Path(sys.argv[1]), "cpu", 1) for _ in range(10)]
        held = []
        for session in opened:
            session.run(None, rows)
            held.append(rss())
        print(held[0], held[-1])
    """
    graph = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        sums (float[n] x) => (float y) { a = Mul(x, x) b = Exp(a) y = ReduceMax<keepdims=0>(b) }""")
    onnx.save(graph, tmp_path / "model.onnx")
    ran = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "model.onnx")], capture_output=True, text=True, check=True
    )
    first, last = map(float, ran.stdout.split())
    assert last - first < 2 * 32


def test_two_wheels_of_the_runtime_at_once_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_installed", lambda name: True)
    with pytest.raises(ConfigError, match="both onnxruntime and onnxruntime-gpu are installed"):
        require_device("cpu")
    monkeypatch.setattr(devices, "_installed", lambda name: name == "onnxruntime")
    require_device("cpu")


def test_arithmetic_on_sizes_may_stay_on_the_cpu() -> None:
    """ONNX Runtime puts it there on purpose: sizes are there already."""
    sizes = Part("CPUExecutionProvider", [Node(kind) for kind in ("Shape", "Gather", "Unsqueeze", "Concat", "Mul")])
    assert not left_on_cpu([Part("CUDAExecutionProvider", [Node("MatMul")]), sizes])


@pytest.mark.parametrize("kind", ["MatMul", "Softmax", "LayerNormalization", "TopK", "LSTM", "Erf"])
def test_what_costs_may_not(kind: str) -> None:
    parts = [Part("CPUExecutionProvider", [Node("Shape"), Node(kind), Node(kind)])]
    assert left_on_cpu(parts) == {kind: 2}
    assert left_on_cpu([Part("CUDAExecutionProvider", [Node(kind)])]) == {}


def test_fused_kernels_may_not_stay_on_the_cpu_whatever_they_are_called() -> None:
    assert left_on_cpu([Part("CPUExecutionProvider", [Node("Gather", "com.microsoft")])]) == {"Gather": 1}


def test_where_nodes_run_is_read_from_the_session(
    bundle_of: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the CPU in CUDA's place, a head of one product is left there."""
    monkeypatch.setattr(devices, "PROVIDERS", {"cpu": "CPUExecutionProvider", "cuda": "CPUExecutionProvider"})
    monkeypatch.setattr(devices, "CUDA_OPTIONS", {})
    refused = pytest.raises(ConfigError, match=r"in part on the CPU \(1 MatMul\).*NLU_DEVICE=cpu")
    with pytest.warns(UserWarning, match="Duplicate provider"), refused:
        open_session(bundle_of("klue/ner") / "model.onnx", "cuda", 1)


def test_a_bundle_without_padding_is_not_for_a_cpu(copy_of: Callable[..., Path]) -> None:
    folder = copy_of("klue/ner", graph={"precision": "fp16-packed"})
    with pytest.raises(ConfigError, match="leaves padding out, which only CUDA can; set NLU_DEVICE=cuda"):
        open_graph(Bundle(folder))
