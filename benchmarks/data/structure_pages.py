r"""Web pages whose structure is known, because generators of documentation made them from a source.

    *.rst.txt ── documents ──> Document ── truth ─────> its Markdown
                                   └────── made_pages ──> {"generator": …, "document": …, "html": …, "truth": …}

Documents are the reStructuredText that Debian's documentation packages carry (``_sources``), read by pandoc and brought
to what all generators can say: headings, paragraphs, lists, quotes, code, formulas in TeX, and tables of plain cells.
Each generator gets that in its own input language and makes a site of all of them. Generators that cannot be installed
have a template (structure_templates.yaml), which puts what pandoc writes as HTML in their markup. What is not installed
is left out and named. Pages of KEPT were never looked at while the extractor was changed.
    apt-get install pandoc hugo jekyll doxygen default-jdk-headless rustc asciidoctor latexml docbook-xsl-ns xsltproc \
        nodejs npm python3.11-doc python-sympy-doc python-astropy-doc python-brian-doc
    pip install sphinx furo sphinx-rtd-theme pydata-sphinx-theme mkdocs mkdocs-material docutils pdoc nbconvert pygments
    npm install honkit vitepress markdown-it-mathjax3 katex        in the folder where this runs
"""

import dataclasses
import functools
import html
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

DOCUMENTS, SHORTEST, LONGEST, MOST_BARS = 15, 1_500, 12_000, 160
"""Documents that are taken, their characters as Markdown, and the most ``|`` in their tables."""
MARKDOWN = "gfm+tex_math_dollars-raw_html"
KINDS = ("Table", "Math", "CodeBlock")
VERBATIM = re.compile(r"(^```.*?^```$|`[^`]+`|\$\$.+?\$\$|\$[^$]+\$)|\\([!-/:-@\[-`{-~])", re.M | re.S)
"""Code and formulas; and what is escaped in other text."""
NODE_MODULES = Path("node_modules").absolute()


def run(*command: str, text: str | None = None, folder: Path | None = None) -> str:
    """Returns what a command prints."""
    done = subprocess.run(command, input=text, capture_output=True, text=True, cwd=folder, timeout=550, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command):.200}: {(done.stderr or done.stdout).strip()[:600]}")
    return done.stdout


@functools.cache
def pandoc(text: str, source: str, form: str, *options: str) -> str:
    return run("pandoc", "-f", source, "-t", form, "--wrap=none", *options, text=text)


@dataclasses.dataclass(frozen=True)
class Document:
    """A source text as a tree of pandoc."""

    name: str
    title: str
    tree: dict[str, Any]

    def written(self, form: str, *options: str) -> str:
        """Returns it in a language that pandoc writes."""
        return pandoc(json.dumps(self.tree), "json", form, *options)

    @property
    def markdown(self) -> str:
        """It as Markdown, with the escapes of CommonMark."""
        return self.written(MARKDOWN)

    @property
    def truth(self) -> str:
        """Its Markdown without escapes: no extractor needs to write them."""
        return VERBATIM.sub(lambda match: match[0] if match[1] else match[2], self.markdown)

    def with_formulas(self, inline: str, display: str, is_escaped: bool = False) -> str:
        """Returns Markdown with the TeX of formulas in other marks, with a backslash before each mark if escaped."""
        formulas: list[str] = []

        def mark(node: dict[str, Any]) -> dict[str, Any]:
            if node["t"] != "Math":
                return node
            pattern = display if node["c"][0]["t"] == "DisplayMath" else inline
            formulas.append(pattern.replace("{}", " ".join(node["c"][1].split())))
            return {"t": "Str", "c": f"formula{len(formulas) - 1}formula"}

        text = pandoc(json.dumps(mapped(self.tree, mark)), "json", MARKDOWN)
        escaped = [re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", formula) if is_escaped else formula for formula in formulas]
        return re.sub("formula([0-9]+)formula", lambda match: escaped[int(match[1])], text)


def mapped(node: Any, change: Callable[[dict[str, Any]], Any]) -> Any:
    """Returns a tree of pandoc with each node as ``change`` gives it: a node, or a list of them."""
    if isinstance(node, list):
        items: list[Any] = []
        for item in node:
            new = mapped(item, change)
            items += new if isinstance(item, dict) and "t" in item and isinstance(new, list) else [new]
        return items
    if not isinstance(node, dict):
        return node
    changed = {key: mapped(value, change) for key, value in node.items()}
    return change(changed) if "t" in changed else changed


def reduced(node: dict[str, Any]) -> Any:
    """Returns a node as all generators can say it."""
    kind, content = node["t"], node.get("c", [])
    if kind in ("Emph", "Strong", "SmallCaps", "Underline", "Strikeout"):
        return content
    if kind in ("Div", "Link", "Span", "Cite", "Quoted"):
        return content[1]
    if kind in ("RawBlock", "RawInline", "Image", "Note", "HorizontalRule", "LineBlock", "DefinitionList", "Null"):
        return []
    if kind == "Code":  # a reference is its text
        return {"t": kind, "c": [["", [], []], re.sub(r" *<.*>$", "", " ".join(content[1].split()))]}
    if kind == "CodeBlock":
        code = re.sub(" *# doctest:.*", "", content[1]).replace("\t", "    ")
        return {"t": kind, "c": [["", ["python"], []], code]}
    if kind == "Header":
        return {"t": kind, "c": [content[0], ["", [], []], content[2]]}
    return {"t": "Space"} if kind in ("SoftBreak", "LineBreak") else node


def document(path: Path) -> Document | None:
    """Returns the document in a file, unless pandoc does not understand it, or not all generators could say it."""
    source = path.read_text(encoding="utf-8", errors="replace")
    is_other = (
        {"api", "reference", "whatsnew"} & set(path.parts) or path.name[:3] == "sg_" or not 3000 < len(source) < 16_000
    )
    if is_other or not re.search(r":math:|\.\. math|={3,} +={3,}|-{3,}\+-{3,}|list-table", source):
        return None
    tree = mapped(json.loads(pandoc(source, "rst", "json")), reduced)
    first = next((i for i, block in enumerate(tree["blocks"]) if block["t"] == "Header"), None)
    if first is None:
        return None
    tree = {**tree, "blocks": tree["blocks"][first:], "meta": {}}
    title = pandoc(json.dumps({**tree, "blocks": tree["blocks"][:1]}), "json", "plain").strip()
    made = Document("page" + re.sub("[^a-z0-9]", "", path.name.split(".")[0].lower()), title, tree)
    is_plain = not re.search(r"<table|\\[<>]", made.written("gfm")) and bars(made) <= MOST_BARS
    return made if is_plain and SHORTEST < len(made.markdown) < LONGEST else None


def bars(made: Document) -> int:
    return sum(line.count("|") for line in made.markdown.split("\n") if line.startswith("|"))


def documents(folder: Path) -> list[Document]:
    """Returns documents: a third those with the largest tables, a third with most formulas, a third with most code."""
    known = [made for path in sorted(folder.rglob("_sources/**/*.rst.txt")) if (made := document(path))]
    chosen: dict[str, Document] = {}
    for kind in KINDS:
        sizes = {made.name: json.dumps(made.tree).count(f'"t": "{kind}"') for made in known}
        if kind == "Table":
            sizes = {made.name: bars(made) for made in known}
        fresh = [made for made in known if made.name not in chosen]
        fresh.sort(key=lambda made: (-sizes[made.name], made.name))
        chosen |= {made.name: made for made in fresh[: DOCUMENTS // len(KINDS)]}
    return list(chosen.values())


class Generator(NamedTuple):
    """How a generator is run, in a folder. In paths and the command, {} is the name of a document."""

    path: str
    """Of the source of a document."""
    source: Callable[[Document], str]
    page: str
    """The path of the page of a document."""
    command: str = ""
    """It with its options; with {}, it is run once for each document. ALL: the paths of all sources."""
    files: dict[str, str] = {}  # noqa: RUF012
    """Other files. NAME is the document of the path; a line with LIST is written once for each document."""


def made_by(generator: Generator, folder: Path, docs: list[Document]) -> dict[str, Path]:
    """Returns the page that a generator made of each document."""
    texts = {generator.path.format(doc.name): generator.source(doc) for doc in docs}
    sources = [f"./{path}" for path in texts]
    for path, text in generator.files.items():
        whole = re.sub("(?m)^.*LIST.*\n", lambda line: "".join(line[0].replace("LIST", doc.name) for doc in docs), text)
        texts |= {path.format(doc.name): whole.replace("NAME", doc.name) for doc in docs}
    for path, text in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    if generator.command.startswith("vitepress"):
        (folder / "node_modules").symlink_to(NODE_MODULES)
    commands = dict.fromkeys(generator.command.format(doc.name) for doc in docs)
    for program, *words in (command.split() for command in commands if command):
        options = [word for given in words for word in (sources if given == "ALL" else [given])]
        local = NODE_MODULES / ".bin" / program
        general = (sys.executable, "-m", program) if program in PYTHON_TOOLS else (program,)
        run(*((str(local),) if local.exists() else general), *options, folder=folder)
    return {doc.name: folder / generator.page.format(doc.name) for doc in docs}


def in_form(form: str, *options: str) -> Callable[[Document], str]:
    return lambda doc: doc.written(form, f"--metadata=pagetitle:{doc.title}", *options)


def doxygen_source(doc: Document) -> str:
    text = doc.with_formulas(r"\f${}\f$", r"\f[{}\f]").replace("``` python", "```py").replace(r"\~", "~")
    return text.replace("\n", f" {{#{doc.name}}}\n", 1)


def java_source(doc: Document) -> str:
    text = doc.written("html", "--mathjax", "--no-highlight").replace("@", "&#64;").replace("*/", "*&#47;")
    lines = text.replace("\\u", "&#92;u").replace("h1", "h2").split("\n")
    return "/**\n" + "".join(f" * {line}\n" for line in lines) + f" */\npackage org.{doc.name};\n"


def rust_source(doc: Document) -> str:
    lines = "".join(f"//! {line}\n" for line in doc.with_formulas(r"\({}\)", r"\[{}\]", True).split("\n"))
    return lines + "/// An engine.\npub struct Engine;\n"


def python_source(doc: Document) -> str:
    return f'{doc.markdown!r}\n\nENGINE = 1\n"""An engine."""\n'


def with_matter(doc: Document) -> str:
    return f"---\ntitle: {json.dumps(doc.title)}\n---\n" + doc.with_formulas(r"\({}\)", r"\[{}\]", True)


def jekyll_source(doc: Document) -> str:
    text = doc.with_formulas("$${}$$", "\n\n$$\n{}\n$$\n\n")
    return f"---\ntitle: {json.dumps(doc.title)}\nlayout: default\n---\n{{% raw %}}\n{text}\n{{% endraw %}}\n"


def honkit_source(doc: Document) -> str:
    return "{% raw %}\n" + doc.with_formulas(r"\({}\)", r"\[{}\]", True) + "\n{% endraw %}\n"


def notebook(doc: Document) -> str:
    cells = []
    for number, piece in enumerate(re.split(r"^``` python\n([\s\S]*?)\n```$", doc.markdown, flags=re.M)):
        code = {"outputs": [], "execution_count": number} if number % 2 else {}
        code["cell_type"] = "code" if number % 2 else "markdown"
        cells.append({"id": f"c{number}", "metadata": {}, "source": piece.strip("\n"), **code})
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def katex(tex: str, is_shown: bool) -> str:
    """Returns a formula as KaTeX draws it on a server."""
    script = f"console.log(require('katex').renderToString({json.dumps(tex)}, {{displayMode: {str(is_shown).lower()}, "
    return run("node", "-e", script + "throwOnError: false, strict: false}))", folder=NODE_MODULES.parent).strip()


def colored(code: str) -> str:
    from pygments import formatters, highlight, lexers

    return str(highlight(code, lexers.PythonLexer(), formatters.HtmlFormatter(nowrap=True))).rstrip("\n")


def by_template(values: dict[str, Any], doc: Document) -> str:
    """Returns the page of a template."""

    def formula(match: re.Match[str]) -> str:
        raw, kind = html.unescape(match[2]), match[1]
        own = values.get("tex", "{}").format(raw)
        texts = {"tex": html.escape(own), "raw": own}
        if "{katex}" in values[kind]:
            texts["katex"] = katex(own, kind == "display")
        if "{mathml}" in values[kind]:
            texts["mathml"] = re.sub("</?p>|\n", "", pandoc(f"${own}$", "markdown", "html", "--mathml"))
        return str(values[kind].format(**texts))

    def code(match: re.Match[str]) -> str:
        text = colored(html.unescape(match[1])) if values.get("colored") else match[1]
        lines = [values.get("lines", "{}").format(line) for line in text.split("\n")]
        return str(values["code"].format("\n".join(lines)))

    def table(match: re.Match[str]) -> str:
        text = re.sub(r"<(t\w+)[^>]*>", r"<\1>", match[0])
        for pattern, mark in values.get("marks", {}).items():
            text = re.sub(pattern, mark, text)
        return str(values.get("table", "{}").format(text))

    body = re.sub("<h1.*?</h1>", "", doc.written("html", "--mathjax", "--no-highlight"), count=1)
    body = re.sub(r'<pre class="python"><code>(.*?)</code></pre>', code, body, flags=re.S)
    body = re.sub(r"<table.*?</table>", table, body, flags=re.S)
    heading = values.get("heading", "<h{0}>{1}</h{0}>")
    body = re.sub(r"<h([2-6])[^>]*>(.*?)</h\1>", lambda match: heading.format(*match.groups()), body, flags=re.S)
    body = re.sub(r'<span\s+class="math (inline|display)">\\[(\[](.*?)\\[)\]]</span>', formula, body, flags=re.S)
    return BASE % (doc.title, values["page"].format(title=html.escape(doc.title), body=body))


PYTHON_TOOLS = {"sphinx", "mkdocs", "docutils", "pdoc", "nbconvert"}
BASE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>%s – Guide</title></head><body>
<header class="site-header"><a class="site-title" href="/">Guide</a><nav><ul><li><a href="/docs/">Docs</a></li>
<li><a href="/blog/">Blog</a></li><li><a href="/about/">About us</a></li></ul></nav></header>
<main class="page-content"><div class="wrapper"><article class="post">%s</article></div></main>
<footer class="site-footer"><p>© 2026 Guide. All rights reserved.</p><a href="/feed.xml">Subscribe by RSS</a></footer>
</body></html>"""
NUMBERS = ".. highlight:: python\n   :linenothreshold: 1\n\n"


def sphinx(theme: str, head: str = "", conf: str = "") -> Generator:
    settings = f"project = 'Guide'\nextensions = ['sphinx.ext.mathjax']\nhtml_theme = '{theme}'\n{conf}"
    files = {"conf.py": settings, "index.rst": "Guide\n=====\n\n.. toctree::\n\n   LIST\n"}
    return Generator("{}.rst", lambda doc: head + doc.written("rst"), "out/{}.html", "sphinx -q -b html . out", files)


def mkdocs(theme: str, has_numbers: bool = False) -> Generator:
    extensions = ["tables", {"pymdownx.arithmatex": {"generic": True}}, "pymdownx.superfences"]
    settings = {
        "site_name": "Guide", "theme": {"name": theme}, "use_directory_urls": False,
        "markdown_extensions": [*extensions, {"pymdownx.highlight": {"linenums": has_numbers}}],
    }  # fmt: skip
    files = {"mkdocs.yml": json.dumps(settings), "docs/index.md": "# Guide\n"}
    return Generator("docs/{}.md", lambda doc: doc.markdown, "site/{}.html", "mkdocs build -q", files)


SHEET = "/usr/share/xml/docbook/stylesheet/docbook-xsl-ns/xhtml5/docbook.xsl"
DOXYFILE = "FILE_PATTERNS=*.md\nGENERATE_LATEX=NO\nUSE_MATHJAX=YES\nQUIET=YES\nHAVE_DOT=NO\nPROJECT_NAME=Guide\n"
HUGO = {
    "baseURL": "https://example.org/", "uglyURLs": True, "disableKinds": ["home", "taxonomy", "term", "section"],
    "markup": {"highlight": {"lineNos": True, "lineNumbersInTable": True}},
}  # fmt: skip
BY_TEMPLATE = {
    name: Generator("{}.html", functools.partial(by_template, values), "{}.html")
    for name, values in yaml.safe_load(Path(__file__).with_name("structure_templates.yaml").read_text("utf-8")).items()
}
GENERATORS: dict[str, Generator] = {
    "Sphinx, Alabaster": sphinx("alabaster"),
    "Sphinx, Read the Docs, numbers": sphinx("sphinx_rtd_theme", NUMBERS, "html_codeblock_linenos_style = 'table'"),
    "Sphinx, Furo": sphinx("furo"),
    "Sphinx, PyData, numbers": sphinx("pydata_sphinx_theme", NUMBERS),
    "MkDocs": mkdocs("mkdocs"),
    "MkDocs, Material, numbers": mkdocs("material", has_numbers=True),
    "pandoc, MathJax": Generator("{}.html", in_form("html5", "-s", "--toc", "--mathjax"), "{}.html"),
    "pandoc, KaTeX": Generator("{}.html", in_form("html5", "-s", "--toc", "--katex"), "{}.html"),
    "pandoc, MathML": Generator("{}.html", in_form("html5", "-s", "--toc", "--mathml"), "{}.html"),
    "docutils, MathML": Generator(
        "{}.rst", in_form("rst"), "{}.html", "docutils --math-output=MathML {0}.rst {0}.html"
    ),
    "Doxygen": Generator("{}.md", doxygen_source, "html/{}.html", "doxygen", {"Doxyfile": DOXYFILE}),
    "Javadoc": Generator(
        "org/{}/package-info.java", java_source, "out/org/{}/package-summary.html",
        "javadoc -quiet -Xdoclint:none -d out -sourcepath . -subpackages org",
        {"org/{}/Engine.java": "package org.NAME;\n/** An engine. */\npublic class Engine {}\n"},
    ),
    "rustdoc": Generator(
        "{}.rs", rust_source, "out/guide/{}/index.html", "rustdoc lib.rs --crate-name guide -o out",
        {"lib.rs": "//! Guide\npub mod LIST;\n"},
    ),
    "pdoc": Generator("{}.py", python_source, "out/{}.html", "pdoc --math -o out ALL"),
    "Hugo, numbers": Generator(
        "content/{}.md", with_matter, "public/{}.html", "hugo --quiet",
        {"config.json": json.dumps(HUGO), "layouts/_default/single.html": BASE % ("{{ .Title }}", "{{ .Content }}")},
    ),
    "Jekyll": Generator(
        "{}.md", jekyll_source, "_site/{}.html", "jekyll build -q --disable-disk-cache",
        {"_config.yml": "title: Guide\n", "_layouts/default.html": BASE % ("{{ page.title }}", "{{ content }}")},
    ),
    "Asciidoctor": Generator(
        "{}.adoc", in_form("asciidoctor"), "{}.html",
        "asciidoctor -a stem=latexmath -a source-highlighter=rouge -a toc=left ALL",
    ),
    "DocBook, MathML": Generator(
        "{}.xml", in_form("docbook5", "-s", "--mathml", "--metadata=title:Guide"), "{}.html",
        f"xsltproc --nonet -o {{0}}.html {SHEET} {{0}}.xml",
    ),
    "LaTeXML": Generator(
        "{}.tex", in_form("latex", "-s", "--no-highlight"), "{}.html",
        "latexmlc --quiet --format=html5 --dest={0}.html {0}.tex",
    ),
    "HonKit": Generator(
        "{}.md", honkit_source, "out/{}.html", "honkit build . out",
        {"README.md": "# Guide\n", "SUMMARY.md": "# Summary\n\n* [LIST](LIST.md)\n"},
    ),
    "VitePress, MathJax 3 drawn": Generator(
        "{}.md", lambda doc: f"::: v-pre\n{doc.markdown}\n:::\n", ".vitepress/dist/{}.html", "vitepress build .",
        {".vitepress/config.mjs": "export default { title: 'Guide', markdown: { math: true } }\n"},
    ),
    "nbconvert": Generator("{}.ipynb", notebook, "{}.html", "nbconvert --to html ALL"),
    **BY_TEMPLATE,
}  # fmt: skip
KEPT = frozenset({
    "Sphinx, Furo", "Sphinx, PyData, numbers", "MkDocs, Material, numbers", "pandoc, MathML", "Javadoc", "pdoc",
    "Jekyll", "Asciidoctor", "DocBook, MathML", "LaTeXML", "HonKit", "nbconvert", "Discourse", "phpBB",
})  # fmt: skip
"""Generators whose pages were never looked at while the extractor was changed."""


def made_pages(sources: Path, folder: Path) -> Iterator[dict[str, Any]]:
    """Yields pages of all generators that are installed; those that are not, or that fail, go to standard error."""
    docs = documents(sources)
    for number, (name, generator) in enumerate(GENERATORS.items()):
        own = folder / f"generator{number}"
        shutil.rmtree(own, ignore_errors=True)
        own.mkdir(parents=True)
        try:
            pages = made_by(generator, own, docs)
        except (FileNotFoundError, RuntimeError) as error:
            print(f"left out: {name}: {error}", file=sys.stderr)
            continue
        for doc in docs:
            page = pages[doc.name].read_text(encoding="utf-8")
            yield {"generator": name, "document": doc.name, "html": page, "truth": doc.truth}
