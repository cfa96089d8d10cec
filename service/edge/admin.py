"""The repository extension of the Open Inference Protocol: which versions serve a model, changed while they serve.

A change is done when every worker has done it. A new version is loaded and proven beside the old one in all of them
before any of them switches; where one cannot load it, all go on as before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from service.access import may_ask
from service.bundle import version_of
from service.config import open_reference
from service.edge.body import parse
from service.edge.gate import ending
from service.edge.http import Asked, Endpoint, Handler, json_response
from service.errors import BundleError, DeadlineExceeded, InvalidItem
from service.process.board import Board, Desired, Entry, Model
from service.server import Server

INDEX = "/v2/repository/index"
PAUSE = 0.05
LONGEST = 3600
"""Seconds until a change is given up that some worker never finishes."""


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Load(Strict):
    reference: Annotated[str | None, Field(description="BentoML tag or folder; absent: as it was asked for last")] = (
        None
    )
    share: Annotated[float, Field(ge=0, le=1, description="part of the items it answers; 1 replaces the others")] = 1.0


class Unload(Strict):
    version: Annotated[str | None, Field(description="only this one; absent: all")] = None
    unload_dependents: Annotated[Literal[False], Field(description="there are none")] = False


class LoadRequest(Strict):
    parameters: Load = Load()


class UnloadRequest(Strict):
    parameters: Unload = Unload()


class IndexRequest(Strict):
    ready: Annotated[bool, Field(description="only versions that are")] = False


def routes(server: Server, board: Board) -> dict[str, dict[str, Endpoint]]:
    """Every one of them changes what is served or tells of it: for administrators only."""
    repository = Admin(server, board)
    found: dict[str, Handler] = {INDEX: repository.index}
    for name in server.bundles:
        found[f"/v2/repository/models/{name}/load"] = repository.load(name)
        found[f"/v2/repository/models/{name}/unload"] = repository.unload(name)
    return {path: {"POST": Endpoint(handler)} for path, handler in found.items()}


class Admin:
    def __init__(self, server: Server, board: Board) -> None:
        self._server = server
        self._board = board
        # Folders from which bundles may come: those of the bundles that the operator named.
        named = (entry for model in board.desired().models.values() for entry in model.versions)
        self._places = {entry.folder.resolve().parent for entry in named}
        self._changes: set[asyncio.Task[Response]] = set()

    async def index(self, asked: Asked) -> Response:
        request = await parse(IndexRequest, asked.body or b"{}")
        entries = [entry for name in filter(may_ask, self._server.bundles) for entry in self._entries(name)]
        return json_response([entry for entry in entries if entry["state"] == "READY" or not request.ready])

    def load(self, name: str) -> Handler:
        async def handle(asked: Asked) -> Response:
            wanted = (await parse(LoadRequest, asked.body or b"{}")).parameters
            return await self._lasting(self._load(name, wanted))

        return handle

    def unload(self, name: str) -> Handler:
        async def handle(asked: Asked) -> Response:
            wanted = (await parse(UnloadRequest, asked.body or b"{}")).parameters
            return await self._lasting(self._unload(name, wanted))

        return handle

    async def _lasting(self, change: Any) -> Response:
        """A change goes on when its caller leaves or has waited long enough, and then says so."""
        task: asyncio.Task[Response] = asyncio.create_task(change)
        self._changes.add(task)
        task.add_done_callback(self._forget)
        limit = self._server.settings.timeout_ms / 1000
        try:
            async with asyncio.timeout(limit):
                return await asyncio.shield(task)
        except TimeoutError:
            raise DeadlineExceeded(f"not done after {limit:g} s, but it goes on: ask {INDEX} how far it is") from None

    def _forget(self, task: asyncio.Task[Response]) -> None:
        self._changes.discard(task)
        if not task.cancelled():
            task.exception()  # told to the caller, if there is one

    async def _load(self, name: str, wanted: Load) -> Response:
        with self._board.changing():
            before = self._board.desired()
            old = before.models[name]
            entry = await asyncio.to_thread(self._entry, name, wanted, old)
            others = [e for e in old.wanted if e.version != entry.version]
            if entry.share < 1 and not sum(e.share for e in others):
                raise InvalidItem("no other version answers the rest", field="parameters.share")
            # First beside the others, answering nothing; a version that is there keeps its share until all switch.
            known = next((e for e in old.wanted if e.version == entry.version), None)
            await self._want(before, name, [*others, known or entry.model_copy(update={"share": 0.0})], entry)
            rest = scaled(others, 1 - entry.share) if entry.share < 1 else []
            await self._want(self._board.desired(), name, [*rest, entry], entry)
        return json_response(self._entries(name))

    async def _unload(self, name: str, wanted: Unload) -> Response:
        with self._board.changing():
            before = self._board.desired()
            old = before.models[name]
            if wanted.version is None:
                new = old.model_copy(update={"loaded": False})
            else:
                rest = [e for e in old.wanted if e.version != wanted.version]
                if len(rest) == len(old.wanted):
                    raise InvalidItem("this version is not loaded", field="parameters.version")
                new = Model(versions=tuple(scaled(rest, 1.0))) if rest else old.model_copy(update={"loaded": False})
            await self._agreed(self._board.want(dict(before.models) | {name: new}))
        return json_response(self._entries(name))

    def _entry(self, name: str, wanted: Load, old: Model) -> Entry:
        """The version that a request names; InvalidItem if it cannot be this model's."""
        reference = wanted.reference or old.primary.reference
        try:
            bundle = open_reference(reference)
        except BundleError as error:
            raise InvalidItem(str(error), field="parameters.reference", code="bundle_refused") from None
        folder = bundle.folder.resolve()
        if folder.parent not in self._places and bundle.folder == Path(reference):
            raise InvalidItem(
                "folders must lie beside one that NLU_MODELS names", field="parameters.reference", code="bundle_refused"
            )
        family, own = bundle.manifest.family, self._server.bundles[name].manifest.family
        if family != own:
            raise InvalidItem(
                f"{name} is {own}, this bundle {family}", field="parameters.reference", code="bundle_refused"
            )
        return Entry(reference=reference, folder=folder, version=version_of(folder), share=wanted.share)

    async def _want(self, before: Desired, name: str, versions: list[Entry], new: Entry) -> None:
        """Have all workers serve these versions of a model, or none of them if one of them cannot."""
        models: Mapping[str, Model] = before.models
        problems = await self._agreed(self._board.want(dict(models) | {name: Model(versions=tuple(versions))}))
        if problem := problems.get(name, {}).get(new.version):
            await self._agreed(self._board.want(models))
            raise InvalidItem(problem, field="parameters.reference", code="bundle_refused")

    async def _agreed(self, revision: int) -> dict[str, dict[str, str]]:
        """Wait until all workers have finished with a revision; what any of them could not do."""
        started = monotonic()
        while True:
            statuses = await asyncio.to_thread(self._board.statuses)
            if statuses and all(status.seen >= revision for status in statuses.values()):
                problems: dict[str, dict[str, str]] = {}
                for status in statuses.values():
                    for name, found in status.problems.items():
                        problems[name] = problems.get(name, {}) | found
                return problems
            if self._server.draining:
                raise ending()
            if monotonic() - started > LONGEST:
                raise DeadlineExceeded(f"not every worker was done after {LONGEST} s")
            await asyncio.sleep(PAUSE)

    def _entries(self, name: str) -> list[dict[str, Any]]:
        """A model's versions, as this worker knows them."""
        server = self._server
        model = server.models.get(name) or self._board.desired().models[name]
        versions = server.repository.states(name, model)
        return [
            {"name": name, "version": version, "state": state, "reason": reason, "share": share}
            for version, (state, reason, share) in versions.items()
        ]


def scaled(entries: list[Entry], total: float) -> list[Entry]:
    """The same versions with shares that add up to `total`, in proportion; alike if none had any."""
    whole = sum(entry.share for entry in entries)
    parts = [entry.share / whole if whole else 1 / len(entries) for entry in entries]
    return [e.model_copy(update={"share": part * total}) for e, part in zip(entries, parts, strict=True)]
