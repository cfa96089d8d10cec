"""Turn a fine-tuned Hugging Face checkpoint into a verified bundle. `python -m exporters --help`."""
