"""Requests that are made from the OpenAPI document, right and wrong ones, and answers held against it."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import requests
import schemathesis
from e2e_fuzz_sent import AT_ONCE, PATIENCE, REFUSED_BY_LOAD, Findings
from e2e_fuzz_wire import HEAVY
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.core.failures import AcceptedNegativeData, FailureGroup
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

CHECKS = [
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
LONG_MS = 60_000
DEADLINES = {"timeout_ms": LONG_MS, "timeout": LONG_MS * 1000}


def cases(document: dict[str, Any]) -> st.SearchStrategy[Case]:
    """Requests to every operation, half of them against its schema."""
    schema = schemathesis.openapi.from_dict(document)
    operations = [found.ok() for found in schema.get_all_operations()]
    light = [o for o in operations if o.path.split("/")[1] not in HEAVY]
    chosen = [*light * 10, *(o for o in operations if o not in light)]

    def case(both: tuple[APIOperation[Any, Any, Any], GenerationMode]) -> st.SearchStrategy[Case]:
        return both[0].as_strategy(generation_mode=both[1]).map(_patient)

    return st.tuples(st.sampled_from(chosen), st.sampled_from(list(GenerationMode))).flatmap(case)


def _patient(case: Case) -> Case:
    """A deadline of a millisecond is rightly missed: valid ones are made long."""

    def walk(node: Any) -> Any:
        if isinstance(node, list):
            return [walk(one) for one in node]
        if not isinstance(node, dict):
            return node
        return {key: max(one, DEADLINES[key]) if _valid(key, one) else walk(one) for key, one in node.items()}

    case.body = walk(case.body)
    return case


def _valid(key: str, value: Any) -> bool:
    return key in DEADLINES and isinstance(value, int) and not isinstance(value, bool) and 0 < value <= DEADLINES[key]


@contextmanager
def _sessions() -> Iterator[Any]:
    """One connection pool a thread, whose environment names no proxy."""
    own, made = threading.local(), []

    def session() -> requests.Session:
        if not hasattr(own, "session"):
            own.session = requests.Session()
            own.session.trust_env = False
            made.append(own.session)
        found: requests.Session = own.session
        return found

    yield session
    for one in made:
        one.close()


def send(url: str, made: Sequence[Case], findings: Findings) -> None:
    with _sessions() as session, ThreadPoolExecutor(AT_ONCE) as pool:

        def one(case: Case) -> None:
            text = f"{case.method} {case.path} {case.query} {case.body!r}"[:600]
            kind = re.sub(r"^/[^/{]+(/batch)?$", r"/<name>\1", case.path)
            try:
                response = case.call(base_url=url, session=session(), timeout=PATIENCE)
            except requests.Timeout:
                findings.note(kind, 0, PATIENCE, f"not answered within {PATIENCE:.0f} s", text)
                return
            findings.note(kind, response.status_code, response.elapsed, _wrong(case, response), text)

        for done in [pool.submit(one, case) for case in made]:
            done.result()


def _wrong(case: Case, response: schemathesis.Response) -> str | None:
    if response.status_code >= 500 or response.status_code in REFUSED_BY_LOAD:
        return f"answered {response.status_code}: {response.content[:300]!r}"
    try:
        case.validate_response(response, checks=CHECKS)
    except FailureGroup as group:
        # A batch is answered item by item, each in its place.
        batch = case.path.endswith("/batch")
        failures = [f for f in group.exceptions if not (batch and isinstance(f, AcceptedNegativeData))]
        return "; ".join(f"{type(f).__name__}: {f}" for f in failures) or None
    return None
