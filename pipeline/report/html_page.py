"""Renders a self-contained HTML file: style, script, figures and plotly.js are inside, nothing is loaded.

    sections ── report.html ──> report.html     layout.html: style.css, page.js, plotly.js (compressed) inlined
    tables, figures ── findings.html ──> the page of ``headrace compare``, ``ladder`` and ``study``
    scores ── model_scores.html ──> the page of ``headrace evaluate``

The page shows text from the web, so it has two protections. Jinja escapes every value. The page's
Content-Security-Policy allows only our two scripts, by their SHA-256, and no requests.
"""

import base64
import functools
import gzip
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape
from plotly.offline import get_plotlyjs

from headrace.pipeline.report.formatting import NONE, count, percent

FOLDER = Path(__file__).parent
FIGURES = "page.js"
"""The script of figures, which needs plotly.js."""


def render(template: str, values: Mapping[str, Any]) -> str:
    """Returns the HTML page of ``template`` with ``values`` and the script of figures."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(count=count, percent=percent, embed=embed, breakable=breakable)
    script, (plotly, plotly_hash) = (FOLDER / FIGURES).read_text(encoding="utf-8"), compressed_plotly()
    return environment.get_template(template).render(
        missing=NONE,
        style=Markup((FOLDER / "style.css").read_text(encoding="utf-8")),
        script=Markup(script),
        script_hashes=f"{source_hash(script)} {plotly_hash}",
        plotly=plotly,
        **values,
    )


@functools.cache
def compressed_plotly() -> tuple[str, str]:
    """Returns plotly.js, compressed and in base64, and its hash."""
    plotly = get_plotlyjs()
    return base64.b64encode(gzip.compress(plotly.encode(), 4, mtime=0)).decode(), source_hash(plotly)


def embed(json: str) -> Markup:
    """Returns ``json`` with ``<`` escaped, so that no text in it can end a script element."""
    return Markup(json.replace("<", "\\u003c"))


def breakable(name: str) -> Markup:
    """Returns ``name`` with a place for a line break after each underscore and dot."""
    return escape(name).replace("_", Markup("_<wbr>")).replace(".", Markup(".<wbr>"))


def source_hash(script: str) -> str:
    """Returns the ``hash-source`` of an inline script for a Content-Security-Policy (CSP Level 3, §2.3.1)."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
