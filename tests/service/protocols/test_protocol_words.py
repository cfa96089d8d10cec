"""The words of paths: none of them may be a model's name, by which keys and metrics know what a path is about."""

from __future__ import annotations

from pathlib import Path

from booth import Booth

from service.config import RESERVED
from service.edge import admin, parse, signin
from service.edge.openapi import document
from service.process.board import Board
from service.tasks import FAMILIES


def test_every_word_of_our_paths_is_no_name_for_a_model(booth: Booth, tmp_path: Path) -> None:
    """A model called `batch` would make /ner/batch a path about two models, of which a key may have one."""
    server, board = booth.server, Board(tmp_path)
    board.want({})
    paths = {*booth.routes, *parse.routes(server), *admin.routes(server, board), signin.PATH}
    paths |= document(FAMILIES, {name: bundle.manifest for name, bundle in server.bundles.items()}, "0")["paths"].keys()
    versions = {bundle.version for bundle in server.bundles.values()}
    words = {word for path in paths for word in path.split("/")} - versions - server.bundles.keys() - {""}
    assert {"batch", "infer", "ready", "versions", "load", "unload", "index", "session"} <= words
    assert words <= RESERVED
