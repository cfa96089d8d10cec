"""mkdocs: files of the repository that are pages of the site too, with links that work in both places."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

PAGES = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "demo/README.md",
    "demo/recipe/README.md",
    "demo/heads/*/README.md",
)
LINK = re.compile(r"\]\(([^)#:]+\.md)(#[^)]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    root = Path(config.config_file_path).parent
    for path in (path for pattern in PAGES for path in sorted(root.glob(pattern))):
        files.append(File.generated(config, path.relative_to(root).as_posix(), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links are written for the repository, where the pages of docs/ lie one folder deeper."""
    own = page.file.src_uri if page.file.generated_by else f"docs/{page.file.src_uri}"

    def on_site(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(own), link[1])).removeprefix("docs/")
        path = posixpath.relpath(target, posixpath.dirname(page.file.src_uri) or ".")
        return f"]({path}{link[2] or ''})"

    return LINK.sub(on_site, markdown)
