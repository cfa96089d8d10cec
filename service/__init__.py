"""Serve ONNX bundles of fine-tuned NLU models over HTTP with adaptive batching.

Floors, imports only go down: types, errors < session, bundle, text < tasks < runner < config, telemetry, app.
"""

__version__ = "0.1.0"
