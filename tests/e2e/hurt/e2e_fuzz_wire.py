"""Requests as bytes, most of them wrong: bodies, heads, framing, paths and methods that nobody should send.

Every one is derived from a request that is right, so that what is wrong with it is reached.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from e2e_fuzz_bodies import changed, damaged, frames, written
from hypothesis import strategies as st

JSON = b"application/json"
OCTETS = b"content-type: application/octet-stream"
HEAVY = {"klue-wos"}
"""Models that take a hundred times as long as others: few requests are theirs."""


@dataclass(frozen=True)
class Shot:
    """`whole`: the server has all that it may wait for, and must answer. `good`: the answer must be 200."""

    kind: str
    data: bytes
    whole: bool = True
    good: bool = False
    head: bool = False
    """Whether the method is HEAD, whose answer has no body."""


def request(
    path: bytes,
    body: bytes,
    headers: tuple[bytes, ...] = (b"content-type: " + JSON,),
    method: bytes = b"POST",
    version: bytes = b"HTTP/1.1",
) -> bytes:
    fields = (b"host: fuzz", *headers, b"content-length: %d" % len(body))
    return b"\r\n".join([method + b" " + path + b" " + version, *fields, b"", body])


METHODS = [
    b"GET",
    b"HEAD",
    b"PUT",
    b"DELETE",
    b"PATCH",
    b"OPTIONS",
    b"TRACE",
    b"CONNECT",
    b"PROPFIND",
    b"post",
    b"",
    b"P",
]
MEDIA = [b"", JSON + b"; charset=utf-16", b"text/plain", b"application/x-www-form-urlencoded", b"a" * 900, b"\xff\xfe"]
MEDIA += [
    b"multipart/form-data; boundary=x",
    b"application/octet-stream",
    b"APPLICATION/JSON",
    b";;;",
    b"application/json, x",
]
FIELDS = [
    b"content-encoding: gzip",
    b"expect: 100-continue",
    b"accept-encoding: \xff",
    b"x-request-id: \x80\xff" + b"a" * 300,
]
FIELDS += [
    b"cookie: " + b"c=d; " * 2000,
    b"authorization: Bearer \xe9",
    b"traceparent: 00-" + b"z" * 60,
    b"range: bytes=9-1",
]
FIELDS += [b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: x\r\nsec-websocket-version: 13"]
FIELDS += [
    b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk",
    b"te: trailers",
    b"x: " + b"a" * 70_000,
]
FIELDS += [
    b"host: a\r\nhost: b",
    b"content-type: a/b\r\ncontent-type: c/d",
    b"x-forwarded-for: " + b"1," * 900,
    b"origin: null",
]
BAD_FIELDS = [
    b"no colon",
    b": empty",
    b"sp ace: 1",
    b"x: a\0b",
    b" folded: 1",
    b"x:\x7f\r",
    b"\xff: 1",
    b"content-length: 5",
]
TARGETS = [
    b"*",
    b"/",
    b"//",
    b"/..",
    b"/%2e%2e/%2e%2e/etc/passwd",
    b"/%00",
    b"/%ff%fe",
    b"/" + b"a" * 3000,
    b"/" + b"a" * 70_000,
]
TARGETS += [
    b"http://other/livez",
    b"/livez?" + b"a=b&" * 2000,
    b"/v2/models/%F0%9F%91%8D/infer",
    b"/models/",
    b"/tei//predict",
]
TARGETS += [
    b"/livez#x",
    b"/batch",
    b"/klue-ner/batch/",
    b"/KLUE-NER",
    b"\xff",
    b"",
    b"a",
    b"/predict?model=%00&model=\xe9",
    b"/a b",
]
TARGETS += [b"/predict?model=%ff", b"/info?model=", b"/health?model=a%0d%0ab", b"/v2/models/klue-ner/versions/../infer"]


@st.composite
def framed(draw: st.DrawFn, path: bytes, body: bytes) -> Shot:
    """A right request in wrong or rare packing."""
    head = b"POST " + path + b" HTTP/1.1\r\nhost: fuzz\r\ncontent-type: " + JSON + b"\r\n"
    cut = draw(st.integers(0, len(body)))
    ends = draw(st.sampled_from([b"0\r\n\r\n", b"0\r\nx: y\r\n\r\n", b"0;a=b\r\n\r\n"]))
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:cut], body[cut:]) if part)
    chunked = head + b"transfer-encoding: chunked\r\n\r\n"
    size = b"content-length: %s\r\n\r\n"
    return draw(
        st.sampled_from(
            [
                Shot("chunked", chunked + chunks + ends, good=True),
                Shot("chunked badly", chunked + chunks[:-1] + b"zz\r\n", whole=False),
                Shot("chunk without an end", chunked + chunks, whole=False),
                Shot(
                    "chunk of a huge size", chunked + b"f" * draw(st.sampled_from([8, 16, 17])) + b"\r\n", whole=False
                ),
                Shot("trailers without an end", chunked + chunks + b"0\r\nx: " + b"a" * 400_000, whole=False),
                Shot(
                    "length and chunks",
                    head + b"content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n" + chunks + ends,
                ),
                Shot("other coding", head + b"transfer-encoding: gzip, x\r\n\r\n" + body, whole=False),
                Shot("too short", head + size % (b"%d" % (len(body) + 1 + cut)) + body, whole=False),
                Shot("cut", (head + size % (b"%d" % len(body)) + body)[: len(head) + cut], whole=False),
                Shot("too long", head + size % (b"%d" % cut) + body),
                Shot("no length", head + b"\r\n" + body),
                Shot(
                    "odd length",
                    head + size % draw(st.sampled_from([b"-1", b"+5", b"0x5", b"1e3", b"9" * 25, b"5 5"])),
                    False,
                ),
                Shot("larger than allowed", head + size % b"9999999999", whole=False),
                Shot("old", request(path, body, version=b"HTTP/1.0"), good=True),
                Shot(
                    "future",
                    request(path, body, version=draw(st.sampled_from([b"HTTP/2.0", b"HTTP/9", b"ICE/1.0"]))),
                    False,
                ),
                Shot("line ends", request(path, body).replace(b"\r\n", b"\n", draw(st.integers(1, 9))), whole=False),
                Shot("noise", draw(st.binary(min_size=1, max_size=200)), whole=False),
                Shot("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + body, whole=False),
            ]
        )
    )


def endpoints(name: str, example: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Right requests that are about one model, over every protocol; `example` is a native item."""
    text = next((value for value in example.values() if isinstance(value, str)), "코스피")
    tensor = {"name": "text", "datatype": "BYTES", "shape": [1], "data": [text]}
    return [
        (f"/{name}", dict(example)),
        (f"/{name}/batch", {"items": [dict(example)] * 2}),
        (f"/models/{name}", {"inputs": dict(example), "parameters": {}}),
        (f"/predict?model={name}", {"inputs": [text, text]}),
        (f"/tei/{name}/rerank", {"query": text, "texts": [text, "a"]}),
        (f"/v2/models/{name}/infer", {"inputs": [tensor]}),
        ("/parse", {"text": [text, text], "tasks": [name]}),
    ]


@st.composite
def shots(draw: st.DrawFn, examples: Mapping[str, Mapping[str, Any]]) -> Shot:
    """One request about any model of `examples`, name -> native item."""
    names = [name for name in examples for _ in range(1 if name in HEAVY else 20)]
    name = draw(st.sampled_from(names))
    place, item = draw(st.sampled_from(endpoints(name, examples[name])))
    path, native, good = place.encode(), f"/{name}".encode(), written(examples[name], ascii_only=False)
    frame = frames().map(lambda both: (both[0], (OCTETS, b"inference-header-content-length: " + both[1])))
    kinds: list[st.SearchStrategy[Shot]] = [
        st.just(Shot("right", request(native, good), good=True)),
        st.just(Shot("right by protocol", request(path, written(item)))),
        *[changed(item).map(lambda body: Shot("changed body", request(path, body)))] * 2,
        *[damaged(item).map(lambda body: Shot("damaged body", request(path, body)))] * 2,
        frame.map(lambda both: Shot("binary tensors", request(f"/v2/models/{name}/infer".encode(), *both))),
        (st.sampled_from(TARGETS) | st.binary(max_size=20).map(b"/".__add__)).map(lambda t: aimed(t, written(item))),
        headed(path, written(item)),
        framed(native, good),
    ]
    return draw(st.sampled_from(kinds).flatmap(lambda kind: kind))


def aimed(target: bytes, body: bytes) -> Shot:
    return Shot("target", request(target, body), whole=bool(target) and not any(c in target for c in b" \r\n"))


@st.composite
def headed(draw: st.DrawFn, path: bytes, body: bytes) -> Shot:
    """A right body under a head that is odd or wrong."""
    match draw(st.sampled_from(["method", "media", "field", "bad field", "many"])):
        case "method":
            method = draw(st.sampled_from(METHODS))
            return Shot("method", request(path, body, method=method), method not in (b"", b"P"), head=method == b"HEAD")
        case "media":
            return Shot("media type", request(path, body, (b"content-type: " + draw(st.sampled_from(MEDIA)),)))
        case "field":
            fields = draw(st.lists(st.sampled_from(FIELDS), min_size=1, max_size=3, unique=True))
            return Shot("odd field", request(path, body, (b"content-type: " + JSON, *fields)))
        case "bad field":
            return Shot("wrong field", request(path, body, (draw(st.sampled_from(BAD_FIELDS)),)), whole=False)
        case _:
            return Shot(
                "many fields", request(path, body, tuple(b"x%d: y" % i for i in range(draw(st.integers(90, 3000)))))
            )
