"""The playground's files: what is sent, how it is kept, and that nothing in them reaches for another place."""

from __future__ import annotations

import asyncio
import fnmatch
import gzip
import re
import tomllib
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath

import pytest
import yaml
from starlette.responses import Response

from service.edge.http import Asked
from service.playground import MEDIA, STATIC, File, files, routes
from service.tasks import FAMILIES

ROOT = Path(__file__).parents[2]
FILES = sorted(path.relative_to(STATIC).as_posix() for path in STATIC.rglob("*") if path.is_file())
SCRIPTS = [name for name in FILES if name.endswith(".js")]


def get(path: str, **headers: str) -> Response:
    sent = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    return asyncio.run(routes()[path]["GET"].answer(Asked(b"", sent)))  # type: ignore[arg-type]


def asset(name: str) -> str:
    return next(path for path in routes() if path.endswith(f"/{name}"))


def source(name: str) -> str:
    return (STATIC / name).read_text(encoding="utf-8")


class Page(HTMLParser):
    """What the page refers to, and what stands in it that should not."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.scripts: list[str] = []
        self.preloaded: list[str] = []
        self.references: list[str] = []
        self.inline: list[str] = []
        self._open = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self._open = tag
        self.inline += [name for name in given if name == "style" or name.startswith("on")]
        self.references += [value for name in ("href", "src") if (value := given.get(name))]
        if tag == "script":
            self.scripts.append(given.get("src") or "")
        if given.get("rel") == "modulepreload":
            self.preloaded.append(given.get("href") or "")

    def handle_data(self, data: str) -> None:
        if self._open in {"script", "style"} and data.strip():
            self.inline.append(data)


def test_every_file_of_the_folder_is_sent_as_it_lies_there_with_its_media_type() -> None:
    for name in FILES:
        path = "/" if name == "index.html" else asset(name)
        response = get(path)
        assert response.status_code == 200
        assert response.headers["content-type"] == MEDIA[Path(name).suffix]
        if name != "index.html":
            assert bytes(response.body) == (STATIC / name).read_bytes()
    assert len(routes()) == len(FILES)


def test_the_page_is_asked_for_anew_and_its_parts_never() -> None:
    assert get("/").headers["cache-control"] == "no-cache"
    assert get(asset("app.js")).headers["cache-control"] == "public, max-age=31536000, immutable"


def test_parts_lie_under_a_name_that_changes_with_any_of_them(tmp_path: Path) -> None:
    for name, text in (("index.html", '<script src="/assets/a.js"></script>'), ("a.js", "1"), ("b.css", "2")):
        (tmp_path / name).write_text(text)
    first = files(tmp_path)
    (tmp_path / "b.css").write_text("3")
    second = files(tmp_path)
    assert first.keys() & second.keys() == {"/"}
    assert first["/"].tag != second["/"].tag
    for found in (first, second):
        (path,) = (p for p in found if p.endswith("/a.js"))
        assert f'src="{path}"'.encode() in found["/"].content


@pytest.mark.parametrize("name", ["index.html", "app.js"])
def test_who_has_a_file_is_not_sent_it_again(name: str) -> None:
    path = "/" if name == "index.html" else asset(name)
    for accepted in ("", "gzip"):
        tag = get(path, accept_encoding=accepted).headers["etag"]
        for sent in (tag, f'"other", {tag}', tag.removeprefix("W/")):
            again = get(path, if_none_match=sent, accept_encoding=accepted)
            assert (again.status_code, bytes(again.body)) == (304, b"")
    assert get(path, if_none_match='"other"').status_code == 200


@pytest.mark.parametrize(
    ("accepted", "packed"),
    [("gzip, deflate, br", True), ("br;q=1, GZIP;q=0.5", True), ("*", True), ("gzip;q=0", False), ("br", False)],
)
def test_a_file_is_packed_for_who_can_unpack_it(accepted: str, packed: bool) -> None:
    response = get(asset("app.js"), accept_encoding=accepted)
    assert response.headers["vary"] == "Accept-Encoding"
    body = bytes(response.body)
    assert ("content-encoding" in response.headers) is packed
    assert (gzip.decompress(body) if packed else body) == (STATIC / "app.js").read_bytes()


def test_the_whole_page_is_small() -> None:
    found = files(STATIC)
    assert sum(len(file.packed) for file in found.values()) < 50_000
    assert all(isinstance(file, File) for file in found.values())


def test_a_browser_is_told_to_run_and_load_nothing_from_elsewhere() -> None:
    for path in routes():
        policy = dict(part.split(" ", 1) for part in get(path).headers["content-security-policy"].split("; "))
        assert policy["default-src"] == policy["base-uri"] == policy["frame-ancestors"] == "'none'"
        assert {policy[f"{kind}-src"] for kind in ("script", "style", "img", "connect")} == {"'self'"}
        assert policy["require-trusted-types-for"] == "'script'", "no text can become markup"
        assert "unsafe" not in str(policy)
        assert get(path).headers["x-content-type-options"] == "nosniff"


def test_the_page_needs_no_exception_from_that_and_refers_to_files_that_are_there() -> None:
    page = Page(bytes(get("/").body).decode())
    assert page.inline == []
    known = {*routes(), "/v1/models", "/docs.json", "/metrics", "/readyz", "#main"}
    assert set(page.references) <= known


def test_every_module_is_on_its_way_before_another_asks_for_it() -> None:
    page = Page(bytes(get("/").body).decode())
    assert page.scripts == [asset("app.js")]
    assert sorted(page.preloaded) == sorted(asset(name) for name in SCRIPTS if name != "app.js")


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_module_imports_modules_that_are_there(name: str) -> None:
    for target in re.findall(r'from "([^"]+)"', source(name)):
        assert target.startswith("."), f"{name} imports {target}"
        parts: list[str] = []
        for part in (PurePosixPath(name).parent / target).parts:
            if part == "..":
                parts.pop()
            elif part != ".":
                parts.append(part)
        assert "/".join(parts) in SCRIPTS


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_module_makes_markup_of_text(name: str) -> None:
    forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|DOMParser|srcdoc"
    assert not re.search(forbidden, source(name))


@pytest.mark.parametrize("name", FILES)
def test_no_file_names_another_host_or_is_long(name: str) -> None:
    text = source(name)
    assert set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+", text)) <= {"http://www.w3.org"}, "the name of SVG alone"
    assert len(text.splitlines()) <= 250


def test_every_family_has_a_form_and_a_drawing() -> None:
    forms = re.findall(r'^  "?([a-z-]+)"?: \{$', source("families.js"), re.MULTILINE)
    views = re.findall(r'^  "?([a-z-]+)"?(?:: \w+)?,$', source("views/index.js"), re.MULTILINE)
    assert set(forms) == set(views) == set(FAMILIES)


def test_wheels_and_bentos_carry_every_file() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packaged = project["tool"]["setuptools"]["package-data"]["service"]
    bento = yaml.safe_load((ROOT / "bentofile.yaml").read_text(encoding="utf-8"))["include"]
    for name in FILES:
        assert any(
            (ROOT / "service").joinpath("playground/static", name) in (ROOT / "service").glob(p) for p in packaged
        )
        assert any(fnmatch.fnmatch(f"service/playground/static/{name}", pattern) for pattern in bento)
