"""Turn a fine-tuned Hugging Face checkpoint into a verified bundle. `python -m exporters --help`."""

import os

# Before anything imports torch or transformers.
for _name, _value in {
    "TRANSFORMERS_VERBOSITY": "error",  # its progress bars and advice would bury ours
    "TOKENIZERS_PARALLELISM": "false",
    "OMP_WAIT_POLICY": "PASSIVE",  # threads of torch that spin make an export ten times slower beside other work
    "BENTOML_DO_NOT_TRACK": "True",
}.items():
    os.environ.setdefault(_name, _value)
