"""Serve ONNX bundles of fine-tuned NLU models over HTTP with adaptive batching.

Floors, imports only go down: types, errors < graph, bundle, text < tasks < batching < observability < edge, process,
app.
"""

__version__ = "0.1.0"
