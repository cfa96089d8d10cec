"""The OpenAPI document and the start page, written from the bundles that are served."""

from __future__ import annotations

import html
import json
import shlex
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from service.bundle import Bundle, Manifest
from service.tasks.base import Task

ERRORS = {
    "400": "the body is not JSON",
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
            "properties": {"code": {"type": "string"}, "message": {"type": "string"}, "field": {"type": "string"}},
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
        "max_length": manifest.max_length,
        "precision": bundle.precision,
        "stages": {stage: part.manifest.family for stage, part in bundle.stages.items()},
        "scores": [score.model_dump() for score in manifest.scores],
        "example": manifest.golden[0].item,
    }


def document(families: Mapping[str, type[Task]], manifests: Mapping[str, Manifest], version: str) -> dict[str, Any]:
    """OpenAPI 3.1 of the native endpoints; every request body carries an example that runs."""
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
            "properties": {"items": {"type": "array", "items": request}},
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
    paths["/v1/models"] = {"get": {"summary": "What is served", "responses": {"200": {"description": "models"}}}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "clueserve", "version": version},
        "paths": paths,
        "components": {"schemas": {**definitions.get("$defs", {}), "Error": ERROR}},
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


PAGE = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>clueserve</title><meta name="viewport" content="width=device-width">
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }}
table {{ border-collapse: collapse; width: 100%; }}
th, td {{ text-align: left; padding: .4rem .8rem .4rem 0; border-bottom: 1px solid #d8dee4; }}
pre {{ background: #f3f5f7; padding: .8rem; white-space: pre-wrap; }} .no {{ color: #9a3412; }}
</style></head><body>
<h1>clueserve</h1>
<p>{count} models. <a href="/v1/models">/v1/models</a> · <a href="/docs.json">OpenAPI</a> ·
<a href="/metrics">metrics</a> · <a href="/readyz">readiness</a></p>
<pre>{curl}</pre>
<table><thead><tr><th>Endpoint</th><th>Suite</th><th>Family</th><th>Language</th><th>Ready</th></tr></thead><tbody>
{rows}
</tbody></table></body></html>
"""


def page(entries: list[dict[str, Any]], host: str) -> str:
    """The start page: what is served and one request to copy, to the `host` that the reader came by."""
    rows = "\n".join(_cells(e) for e in entries)
    first = entries[0]
    body = shlex.quote(json.dumps(first["example"], ensure_ascii=False))
    curl = f"curl -s {host}{first['endpoint']} -H 'content-type: application/json' -d {body}"
    return PAGE.format(count=len(entries), curl=html.escape(curl), rows=rows)


def _cells(entry: dict[str, Any]) -> str:
    texts = [html.escape(str(entry[key])) for key in ("suite", "family", "language")]
    ready = "<td>yes</td>" if entry["ready"] else '<td class="no">not yet</td>'
    endpoint = f"<td><code>POST {html.escape(entry['endpoint'])}</code></td>"
    return f"<tr>{endpoint}{''.join(f'<td>{text}</td>' for text in texts)}{ready}</tr>"
