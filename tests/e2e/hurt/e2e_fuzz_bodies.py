"""Bodies of requests that are derived from right ones and wrong in one or two things. None has a short deadline."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

# A value that stands where another was expected.
odd_text = st.one_of(
    st.text(max_size=12),
    st.text(
        st.sampled_from("a 한字\u1100\u1161\u0301\u200b\u200d\ufeff\u202e\0\x1b\U0001f468\ud800\udfff"), max_size=12
    ),
    st.sampled_from(["", " ", "\0", "[MASK][SEP]", "a" * 3000, "é\u0301" * 40, "\ud83d", "1e999", "../../etc/passwd"]),
)
odd_number = st.one_of(
    st.integers(),
    st.floats(),
    st.sampled_from([0, -1, 2**31, 2**63, 2**64, -(2**63) - 1, 10**400, 5e-324, 1e308, float("nan"), float("inf")]),
)
odd = st.recursive(
    st.one_of(st.none(), st.booleans(), odd_number, odd_text),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(odd_text, inner, max_size=3)),
    max_leaves=6,
)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of everything in a JSON value, the value itself included."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, one in inner for found in leaves(one, (*path, key)))]


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    key, rest = path[0], path[1:]
    if isinstance(value, dict):
        return value | {key: replaced(value[key], rest, new)}
    return [replaced(one, rest, new) if i == key else one for i, one in enumerate(value)]


def written(value: Any, ascii_only: bool = True) -> bytes:
    """JSON with whatever Python lets through: NaN, half surrogate pairs, numbers of four hundred digits."""
    return json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")


@st.composite
def changed(draw: st.DrawFn, item: Mapping[str, Any]) -> bytes:
    """A body whose JSON is fine and whose content is not."""
    value: Any = dict(item)
    for _ in range(draw(st.integers(1, 2))):
        match draw(st.sampled_from(["replace", "add", "drop"])):
            case "replace":
                value = replaced(value, draw(st.sampled_from(leaves(value))), draw(odd))
            case "add" if isinstance(value, dict):
                value = value | {draw(odd_text): draw(odd)}
            case _ if isinstance(value, dict) and value:
                gone = draw(st.sampled_from(sorted(value)))
                value = {key: one for key, one in value.items() if key != gone}
    if isinstance(value, dict) and isinstance(value.get("timeout_ms"), int | float):
        del value["timeout_ms"]  # a deadline of a millisecond would be a 504, and rightly so
    return written(value, draw(st.booleans()))


@st.composite
def damaged(draw: st.DrawFn, item: Mapping[str, Any]) -> bytes:
    """A body that is hardly JSON."""
    good = written(item, ascii_only=False)
    at = draw(st.integers(0, len(good)))
    text = json.dumps(item, ensure_ascii=False)
    return draw(
        st.sampled_from(
            [
                b"",
                good[:at],
                good[:at] + draw(st.binary(min_size=1, max_size=6)) + good[at:],
                good + draw(st.binary(min_size=1, max_size=6)),
                b"\xef\xbb\xbf" + good,
                text.encode("utf-16"),
                text.encode("utf-32"),
                text.encode("gb18030"),
                text.encode("euc-kr", "ignore"),
                good[:-1] + b"," + good[1:],  # every key twice
                good.replace(b'"', b"'"),
                b"[" * draw(st.sampled_from([10, 1_000, 100_000])),
                b'{"text":' * draw(st.sampled_from([10, 1_000, 50_000])) + b"1",
                good[:-1] + b',"text":' + b"[" * 200 + b"]" * 200 + b"}",
                good[:-1] + b',"top_k":' + b"9" * draw(st.sampled_from([20, 400, 5_000])) + b"}",
                good[:-1] + b',"top_k":1e' + b"9" * 30 + b"}",
                b"\x1f\x8b\x08\x00" + good,
                draw(st.binary(max_size=64)),
            ]
        )
    )


@st.composite
def frames(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """Body and `Inference-Header-Content-Length` of the binary form of Open Inference Protocol v2.

    Each part is wrong now and then, so that all of them are right in a good part of the examples.
    """

    def mostly(right: Any, *wrong: Any) -> Any:
        return draw(st.sampled_from(wrong)) if draw(st.integers(0, 9)) == 0 else right

    texts = draw(st.lists(st.just("코스피 상승".encode()), min_size=1, max_size=3))
    texts = mostly(texts, [b"\xff\xfe"], [b""], [b"a\0b"])
    blob = b"".join(struct.pack("<I", len(text)) + text for text in texts)
    blob = mostly(blob, blob[:-1], blob + b"\0", struct.pack("<I", 2**32 - 1) + blob, b"", blob * 50)
    size = mostly(len(blob), 0, -1, 2**40, len(blob) + 1, True, 1.5, "9", 10**30, None)
    shape = mostly([len(texts)], [len(texts), 1], [0], [2**31, 2**31], [], [-1], [10**30], "1", [1.0], [[1]])
    tensor = {"name": mostly("text", "text_pair", "x", "", 1), "shape": shape, "parameters": {"binary_data_size": size}}
    tensor |= {"datatype": mostly("BYTES", "FP16", "INT64", "BOOL", "bytes", "", None)}
    more = mostly({}, {"outputs": [{"name": "label"}]}, {"parameters": {"binary_data_output": True}}, {"id": "\ud800"})
    head = written({"inputs": [tensor] * mostly(1, 0, 2)} | more)
    length = b"%d" % len(head)
    return head + blob, mostly(length, b"0", b"%d" % (len(head) - 1), b"9" * 30, b"-1", b"", b"1e3", b"\xb2", b" 7 ")
