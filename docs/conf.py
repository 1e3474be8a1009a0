"""The site of the pages (`make site`): what Sphinx reads, and its menu, which is the index docs/README.md."""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = html_title = "Headrace"
extensions = ["myst_parser"]
root_doc = "README"
include_patterns = ["*.md", "docs/*.md", "slurm/README.md", "courses/README.md", "courses/docs/*.md"]
include_patterns += ["benchmarks/records/*.md"]
suppress_warnings = ["toc.not_included"]  # records and pages of courses are reached by links, not by the menu
exclude_patterns = [".*", "runs", "site", "src"]
html_theme = "furo"
highlight_language = "none"
myst_heading_anchors = 4

INDEX = "docs/README"
PAGE = re.compile(r"\]\(([\w./-]+)\.md\)")
MENU = "\n```{{toctree}}\n:hidden:\n:caption: {}\n:glob:\n\n{}\n```\n"


def menu(index: str) -> str:
    """Returns a part of the menu for each section of ``index`` that links pages, in its order."""
    sections = re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", index, re.MULTILINE | re.DOTALL)
    parts = [(title, "\n".join(dict.fromkeys(PAGE.findall(text)))) for title, text in sections]
    return "".join(MENU.format(*part) for part in parts)


def add_menu(app: "Sphinx", page: str, source: list[str]) -> None:
    """Adds the menu to the index, and the index, the list of changes and SECURITY.md to the first page."""
    if page == INDEX:
        source[0] += menu(source[0])
    elif page == root_doc:
        source[0] += MENU.format("Pages", f"{INDEX}\nCHANGELOG\nSECURITY")


def setup(app: "Sphinx") -> None:
    """Connects the menu."""
    app.connect("source-read", add_menu)
