"""The OpenAPI document and the list of models, written from the bundles that are served."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from service.access import named
from service.bundle import Bundle, Manifest
from service.edge import parse
from service.tasks.base import Task

MODEL = "model"
"""The parameter by which protocols name a model."""
ERRORS = {
    "400": "the body is not JSON",
    "401": "no key, where the server wants one",
    "403": "the key may not ask this model",
    "413": "the body is too large",
    "415": "the body is not application/json",
    "422": "the item cannot be answered; `field` is the path to the culprit",
    "429": "the predicted wait is too long; see Retry-After",
    "503": "not ready: loading, failed to load, or shutting down",
    "504": "the deadline passed",
}
ERROR: dict[str, Any] = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message"],
            "properties": {
                "code": {"type": "string"},
                "message": {"type": "string"},
                "field": {"type": "string"},
                "retry_after": {"type": "integer", "description": "seconds"},
            },
        }
    },
}


def describe(name: str, task: Task | None, bundle: Bundle) -> dict[str, Any]:
    """One entry of `GET /v1/models`."""
    manifest = bundle.manifest
    return {
        "name": name,
        "ready": task is not None,
        "endpoint": f"/{name}",
        "family": manifest.family,
        "suite": manifest.suite,
        "language": manifest.language,
        "labels": manifest.labels,
        "label_names": manifest.label_names,
        "score_range": manifest.decoder.get("score_range"),
        "max_length": manifest.max_length,
        "precision": bundle.precision,
        "stages": {stage: part.manifest.family for stage, part in bundle.stages.items()},
        "scores": [score.model_dump() for score in manifest.scores],
        "example": manifest.golden[0].item,
    }


def document(
    families: Mapping[str, type[Task]],
    manifests: Mapping[str, Manifest],
    version: str,
    others: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """OpenAPI 3.1 of the native endpoints; every request body carries an example that runs.

    `others`: paths of the protocols, for any model. Nothing is told of a model that has no manifest here.
    """
    used = {families[m.family] for m in manifests.values()}
    models: list[tuple[type[BaseModel], Any]] = [(t.Input, "validation") for t in used] + [
        (t.Output, "serialization") for t in used
    ]
    refs, definitions = models_json_schema(models, ref_template="#/components/schemas/{model}")
    paths: dict[str, Any] = {}
    for name, manifest in manifests.items():
        task = families[manifest.family]
        request, response = refs[(task.Input, "validation")], refs[(task.Output, "serialization")]
        golden = manifest.golden[0]
        paths[f"/{name}"] = _operation(
            f"{manifest.suite}, {manifest.family}", request, response, golden.item, golden.answer
        )
        batch_request = {
            "type": "object",
            "required": ["items"],
            "additionalProperties": False,
            "properties": {"items": {"type": "array", "items": request, "minItems": 1}},
        }
        batch_response = {
            "type": "object",
            "required": ["results"],
            "properties": {
                "results": {"type": "array", "items": {"anyOf": [response, {"$ref": "#/components/schemas/Error"}]}}
            },
        }
        paths[f"/{name}/batch"] = _operation(
            f"{manifest.suite}, many items: each answered or refused on its own",
            batch_request,
            batch_response,
            {"items": [golden.item]},
            {"results": [golden.answer]},
        )
    if together := parse.description(manifests):
        paths[parse.PATH] = _operation(*together)
    paths["/v1/models"] = {"get": {"summary": "What is served", "responses": {"200": {"description": "models"}}}}
    paths |= narrowed(others or {}, manifests)
    return {
        "openapi": "3.1.0",
        "info": {"title": "clueserve", "version": version},
        "paths": paths,
        "components": {"schemas": {**definitions.get("$defs", {}), "Error": ERROR}},
    }


def secured(document: dict[str, Any]) -> None:
    """Say that every request needs a key, and where it stands."""
    schemes = {
        "bearer": {"type": "http", "scheme": "bearer"},
        "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    }
    document["components"]["securitySchemes"] = schemes
    document["security"] = [{name: []} for name in schemes]


def narrowed(paths: Mapping[str, Any], models: Container[str]) -> dict[str, Any]:
    """Paths for any model, whose parameters name none but these."""

    def operation(found: dict[str, Any]) -> dict[str, Any]:
        given = [
            p | {"schema": p["schema"] | {"enum": [name for name in p["schema"]["enum"] if name in models]}}
            if p["name"] == MODEL
            else p
            for p in found.get("parameters", [])
        ]
        return found | ({"parameters": given} if given else {})

    return {path: {method: operation(found) for method, found in methods.items()} for path, methods in paths.items()}


def calls(schema: dict[str, Any], models: Container[str], allowed: Callable[[str], bool]) -> dict[str, Any]:
    """What BentoML's clients read in /schema.json, without the calls that are about models that are not allowed."""

    def may(path: str) -> bool:
        return all(map(allowed, named(path, models)))

    return schema | {
        "routes": [route for route in schema["routes"] if may(route["route"])],
        "paths": {path: facts for path, facts in schema["paths"].items() if may(path)},
    }


def _operation(summary: str, request: Any, response: Any, example: Any, answer: Any) -> dict[str, Any]:
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    return {
        "post": {
            "summary": summary,
            "requestBody": {"required": True, "content": {"application/json": {"schema": request, "example": example}}},
            "responses": {
                "200": {
                    "description": "answered",
                    "content": {"application/json": {"schema": response, "example": answer}},
                },
                **{status: {"description": text, "content": error} for status, text in ERRORS.items()},
            },
        }
    }
