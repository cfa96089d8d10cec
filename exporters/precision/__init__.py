"""Lower precisions for a CPU: each is a function of an ONNX graph and what calibration found, and gives a graph.

`rowwise` is what `--precision int8` exports. `baselines` are what it is compared with.
"""
