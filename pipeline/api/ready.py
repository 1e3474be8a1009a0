"""Compiles what the pieces need, before work begins: before processes are forked, or where seconds count."""

from collections.abc import Callable, Mapping

from headrace.pipeline.api.benchmarks import Benchmarks
from headrace.pipeline.api.cleaner import Cleaner, language
from headrace.pipeline.api.near_duplicates import near_duplicates, signatures
from headrace.pipeline.api.text import text
from headrace.pipeline.core.errors import ConfigError, suggestion

WORDS = "The wheel of the old mill turns in the river, and the miller grinds the corn of the whole valley. " * 4
TEXTS = (WORDS, f"{WORDS}Ein Müller mahlt das Korn – 水車。\n{WORDS}", f"{WORDS}Again.", WORDS)
PAGE = f"""<!DOCTYPE html><html lang=en><title>Mill</title><body class="a b"><nav><a href=/>Home</a></nav><main id=c>
<h1>Mill</h1><p>{WORDS}5 m<sup>2</sup> <del>new</del> <b>Grain</b> &amp;
<a href="x?y=1">flour</a><ul><li>one<li>two</ul><pre>a  b</pre>
<table><tr><td colspan=2>{WORDS}<td>2</table><p>{TEXTS[1]}<script>var a = "</p>";</script><!-- c --></main>"""
PLAIN = f"<p>{WORDS}<p>{WORDS}<table><tr><td>{WORDS}<td>2<tr><td>{WORDS}<td>3</table>".encode()
SAMPLES: Mapping[str, Callable[[], object]] = {
    "text": lambda: [text(page, markdown=form) for page in (PAGE.encode(), PLAIN, "<p>1") for form in (False, True)],
    "clean": lambda: [Cleaner(preset).all(TEXTS) for preset in ("c4", "gopher", "fineweb")],
    "near_duplicates": lambda: near_duplicates(TEXTS),
    "signatures": lambda: signatures(TEXTS),
    "language": lambda: [*map(language, TEXTS)],
    "benchmarks": lambda: [*map(Benchmarks({"mill": TEXTS[:1]}), TEXTS)],
}


def ready(*pieces: str) -> None:
    """Compiles and loads what ``pieces`` need. On a new machine that takes a minute, once; later, a second.

        headrace.ready("text", "clean")        before a pool of processes is forked, which then share it

    Pieces are ``text``, ``clean``, ``near_duplicates``, ``signatures``, ``language``, ``benchmarks``; all of them if
    none is named. Tokens, packing and personal data need nothing compiled.
    """
    for piece in pieces or SAMPLES:
        if piece not in SAMPLES:
            raise ConfigError("ready", f"unknown piece {piece!r}", suggestion(piece, SAMPLES))
        SAMPLES[piece]()
