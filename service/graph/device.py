"""Opening a graph where it was asked to run: all of it there, or an error that says why not."""

from __future__ import annotations

import importlib.metadata
import threading
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, Literal

import onnxruntime as ort

from service.errors import ConfigError

Device = Literal["cpu", "cuda", "tensorrt"]

PROVIDERS: dict[Device, str] = {
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "tensorrt": "TensorrtExecutionProvider",
}
CUDA_OPTIONS = {
    # Every session has an arena of its own; doubling each of them wastes half of the device.
    "arena_extend_strategy": "kSameAsRequested",
    # Products of 10 bit mantissas are not the float32 that a bundle was compared with torch in.
    "use_tf32": "0",
}
# Growth by doubling: regions of exactly what was asked for do not fit the next request, and more of them are held.
ARENA = {
    "max_mem": 0,
    "arena_extend_strategy": 0,
    "initial_chunk_size_bytes": -1,
    "max_dead_bytes_per_chunk": -1,
}
# What ONNX Runtime leaves on the CPU on purpose: arithmetic on sizes and indices, which are there already.
# fmt: off
CHEAP = frozenset({
    "Add", "Cast", "Concat", "ConstantOfShape", "Div", "Equal", "Expand", "Floor", "Gather", "Greater", "Identity",
    "Less", "Max", "Min", "Mod", "Mul", "Not", "Pad", "Range", "Reshape", "Shape", "Size", "Slice", "Sqrt",
    "Squeeze", "Sub", "Unsqueeze", "Where",
})
# fmt: on


def require_device(device: Device) -> None:
    """Refuse a device that this machine's ONNX Runtime cannot have, and an ambiguous installation.

    Both wheels write the same folder, so that with both installed nobody knows which one runs.
    """
    wheels = [w for w in ("onnxruntime", "onnxruntime-gpu") if _installed(w)]
    if len(wheels) == 2:
        raise ConfigError(
            "both onnxruntime and onnxruntime-gpu are installed and overwrite each other; uninstall both, then install "
            "clueserve[cpu] or clueserve[gpu]"
        )
    wanted = PROVIDERS[device]
    if wanted not in ort.get_available_providers():
        raise ConfigError(
            f"device {device!r} needs {wanted}, but the installed ONNX Runtime {ort.__version__} offers "
            f"{', '.join(ort.get_available_providers())}; install clueserve[gpu] or set NLU_DEVICE=cpu"
        )
    if device != "cpu":
        ort.preload_dlls()  # CUDA and cuDNN from their wheels, which no loader path knows


def _installed(name: str) -> bool:
    try:
        importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def open_session(path: Path, device: Device, threads: int) -> Any:
    """An ONNX Runtime session of a file on a device; ConfigError if it, or a part of it that costs, runs elsewhere."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # Idle threads that spin steal the core from the worker beside them: 35 against 10 ms of CPU a run.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if device == "cpu":
        with _preparing:
            _one_arena()
        options.add_session_config_entry("session.use_env_allocators", "1")
        return ort.InferenceSession(str(path), options, providers=[PROVIDERS["cpu"]])
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    chain: list[Any] = [PROVIDERS["tensorrt"]] if device == "tensorrt" else []
    chain += [(PROVIDERS["cuda"], CUDA_OPTIONS), PROVIDERS["cpu"]]
    try:
        # Without its fallback, which makes the session anew on the CPU when the device fails, even in a later run.
        session = ort.InferenceSession(str(path), options, providers=chain, enable_fallback=0)
    except Exception as error:  # its exceptions have no other base
        raise ConfigError(f"device {device!r}: ONNX Runtime cannot run {path} there: {error}") from error
    if session.get_providers()[0] != PROVIDERS[device]:
        raise ConfigError(
            f"device {device!r} was asked for, but ONNX Runtime could not start {PROVIDERS[device]} (no usable GPU or "
            f"driver) and would run on {', '.join(session.get_providers())}; mend the GPU or set NLU_DEVICE=cpu"
        )
    if left := left_on_cpu(session.get_provider_graph_assignment_info()):
        shown = ", ".join(f"{n} {kind}" for kind, n in sorted(left.items()))
        raise ConfigError(
            f"device {device!r}: {path} would run in part on the CPU ({shown}), with a copy there and back each time; "
            "serve this bundle with NLU_DEVICE=cpu"
        )
    return session


_preparing = threading.Lock()


@cache
def _one_arena() -> None:
    """Have all sessions compute in the same memory, for the life of the process.

    An arena never gives back what its longest rows needed, and one a session is twenty of them with twenty heads.
    """
    info = ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)
    ort.create_and_register_allocator(info, ort.OrtArenaCfg(ARENA))


def left_on_cpu(parts: Iterable[Any]) -> Counter[str]:
    """Nodes of a session's graph that the CPU got and that do more than work out sizes, counted by kind."""
    on_cpu = (node for part in parts if part.ep_name == PROVIDERS["cpu"] for node in part.get_nodes())
    return Counter(node.op_type for node in on_cpu if node.domain or node.op_type not in CHEAP)
