"""Models on a device of their own: what one computes and the next reads stays there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnxruntime as ort

from service.graph.device import Device
from service.graph.session import Cost, Model
from service.types import Array


class DeviceModel(Model):
    """A model whose arrays are bound to where they are needed: only what somebody is going to look at is fetched."""

    # A device takes as long for a few tokens as for thousands: only runs that fill it say what a token costs.
    batches = ((8, 16), (32, 64), (32, 512))

    def __init__(self, path: Path, device: Device, threads: int = 1) -> None:
        super().__init__(path, device, threads)
        self._place = "cpu" if device == "cpu" else "cuda"

    def __call__(self, arrays: Mapping[str, Any]) -> dict[str, Array]:
        return {name: value.numpy() for name, value in self._bound(arrays, "cpu").items()}

    def hidden(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        return self._bound(arrays, self._place)

    def _bound(self, arrays: Mapping[str, Any], place: str) -> dict[str, Any]:
        binding = self._ort.io_binding()
        for name in self.inputs:
            value = arrays[name]
            bind = binding.bind_ortvalue_input if isinstance(value, ort.OrtValue) else binding.bind_cpu_input
            bind(name, value)
        for name in self._names:
            binding.bind_output(name, place)
        self._ort.run_with_iobinding(binding)
        return dict(zip(self._names, binding.get_outputs(), strict=True))

    def measure(self, axis: str | int, longest: int) -> Cost:
        if self._cost is None:
            for rows, length in self._shapes(longest):
                self.hidden(self._made_up(axis, rows, length))  # kernels are loaded when they are first used
        return super().measure(axis, longest)

    def _made_up(self, axis: str | int, rows: int, length: int) -> dict[str, Any]:
        arrays = super()._made_up(axis, rows, length)
        return {name: ort.OrtValue.ortvalue_from_numpy(array, self._place) for name, array in arrays.items()}


def open_model(path: Path, device: Device) -> Model:
    return Model(path) if device == "cpu" else DeviceModel(path, device)
