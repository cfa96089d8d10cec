"""mkdocstrings: fields of models and dataclasses as one table below their class, and drawings in docstrings as such."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

import griffe

HEADS = ("field", "type", "default", "")


class Field(NamedTuple):
    name: str
    type: str
    default: str
    text: str


class Fields(griffe.Extension):
    """Reads them in the source: `Annotated[int, Field(description="...")] = 1` is a type, a text and a default."""

    def on_class_members(self, *, node: Any, cls: griffe.Class, agent: Any, **_: Any) -> None:
        if not isinstance(node, ast.ClassDef):
            return
        fields = [field for field in _fields(node.body) if not field.name.startswith("_")]
        if not fields:
            return
        rows = [(f"`{f.name}`", f"`{f.type}`", f.default and f"`{f.default}`", f.text) for f in fields]
        columns = [[head, "---", *cells] for head, *cells in zip(HEADS, *rows, strict=True) if any(cells)]
        lines = [f"| {' | '.join(line)} |" for line in zip(*columns, strict=True)]
        text = f"{cls.docstring.value}\n\n" if cls.docstring else ""
        cls.docstring = griffe.Docstring(text + "\n".join(lines), parent=cls)
        for field in fields:
            cls.members[field.name].docstring = None  # it would be shown twice


class Trees(griffe.Extension):
    """A drawing in a module's docstring keeps its lines."""

    def on_module(self, *, mod: griffe.Module, **_: Any) -> None:
        if mod.docstring and "└" in mod.docstring.value:
            parts = mod.docstring.value.split("\n\n")
            mod.docstring.value = "\n\n".join(f"```text\n{p}\n```" if "└" in p else p for p in parts)


def _fields(body: Sequence[ast.stmt]) -> Iterator[Field]:
    for statement, after in zip(body, [*body[1:], None], strict=True):
        if not (isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)):
            continue
        kind = ast.unparse(_Plain().visit(deepcopy(statement.annotation)))
        if kind.startswith("ClassVar"):
            continue
        calls = [n for n in ast.walk(statement) if isinstance(n, ast.Call) and ast.unparse(n.func) == "Field"]
        said = [k.value for call in calls for k in call.keywords if k.arg == "description"]
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            said.append(after.value)
        text = " ".join(str(ast.literal_eval(node)) for node in said)
        yield Field(statement.target.id, kind, _default(statement.value), " ".join(text.split()))


def _default(value: ast.expr | None) -> str:
    """What stands behind the `=`, or the default within `Field(...)` and `field(...)`."""
    if isinstance(value, ast.Call) and ast.unparse(value.func) in ("Field", "field"):
        made = {k.arg: k.value for k in value.keywords}
        if "default_factory" in made:
            return f"{ast.unparse(made['default_factory'])}()"
        value = value.args[0] if value.args else made.get("default")
    return "" if value is None else ast.unparse(value)


class _Plain(ast.NodeTransformer):
    """`Annotated[X, ...]` -> `X`."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if ast.unparse(node.value) == "Annotated" and isinstance(node.slice, ast.Tuple):
            return node.slice.elts[0]
        return node
