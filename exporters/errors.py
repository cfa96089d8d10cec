"""What the exporters refuse."""

from __future__ import annotations


class ExportError(Exception):
    """A checkpoint that cannot become a bundle, with the reason a person can act on."""
