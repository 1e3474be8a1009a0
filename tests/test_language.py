"""The language of CONTRIBUTING.md, enforced on docstrings, comments and messages where a pattern can be tested."""

import ast
import dataclasses
import io
import itertools
import re
import tokenize
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from tests.house import tree

ROOT = Path(__file__).parents[1]
ROOMS = ("pipeline", "data_prep", "train")
SOURCES = sorted(path.relative_to(ROOT) for room in ROOMS for path in (ROOT / room).rglob("*.py"))

HANGING = re.compile(
    r"As|Behind|By|For|From|Have|How|If|Not|Of|So|Such|Than|That|Those|Until|What|"
    r"Whatever|When|Where|Which|Who|Whoever|Whose"
)
"""First words of a clause that is no sentence: "What a rank holds." instead of "The values of a rank."."""

IMPERATIVES = re.compile(
    r"Add|Apply|Ask|Begin|Build|Check|Compare|Compute|Copy|Count|Cut|Deal|Decide|Divide|Do|"
    r"Draw|Encode|End|Enter|Fill|Find|Finish|Give|Hold|Keep|Leave|Load|Look|Make|Merge|"
    r"Open|Parse|Pass|Print|Put|Raise|Read|Record|Refuse|Remove|Return|Run|Save|Say|Score|"
    r"Send|Show|Sort|Split|Start|Stop|Submit|Take|Tell|Train|Try|Turn|Use|Wait|Write|Yield"
)
"""First words of a function's docstring that belong in the third person: "Returns …"."""

BANNED = {
    "abroad": "at Hugging Face",
    "anew": "again",
    "at home": "ours",
    "behind": "after",
    "beside": "in addition to, with",
    "goes? the same way": "the name of what happens",
    "gone through": "read",
    "in force": "committed, current",
    "in the place of": "instead of",
    "nobody": "no process, no user",
    "slopes?": "gradient",
    "room for": "space, capacity",
    "so far as": "if",
    "tells|telling": "prints, reports, shows",
    "told": "printed, reported, known",
    "whoever": "the process, the user",
}
"""Terms → better ones, in comments, docstrings and messages, and in conf/."""
ANY_BANNED = re.compile(rf"\b(?:{'|'.join(BANNED)})\b", re.IGNORECASE)

EXAMPLES = {"train/evaluation/benchmarks/minimal_pairs.py": ("behind the {}", "Nobody wants {} {} now")}
"""Text of benchmarks, which is not ours to write."""

CONFIGURATION = {".yaml", ".sbatch", ".example", ".md"}

TEXT = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}


@dataclasses.dataclass(frozen=True)
class Docstring:
    """A docstring and what it describes."""

    line: int
    text: str
    is_function: bool
    is_bool: bool
    """Whether it describes a function that returns bool, or a field that is one."""

    def faults(self) -> Iterator[str]:
        """Yields what is wrong with the first word."""
        first = word.group() if (word := re.search(r"\w+", self.text)) else ""
        if HANGING.fullmatch(first) or (first == "Whether" and not self.is_bool):
            yield f"line {self.line}: a docstring begins with {first!r}, which makes no sentence"
        if IMPERATIVES.fullmatch(first) and self.is_function:
            yield f"line {self.line}: a docstring begins with {first!r}; use the third person"


def docstrings(tree: ast.AST) -> Iterator[Docstring]:
    """Yields the docstrings of modules, classes, functions, constants and fields."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            if text := ast.get_docstring(node):
                is_function = isinstance(node, ast.FunctionDef)
                returned = getattr(node, "returns", None)
                yield Docstring(node.body[0].lineno, text, is_function, is_function and annotates_bool(returned))
            for field, after in itertools.pairwise(node.body):
                match field, after:
                    case ast.Assign() | ast.AnnAssign(), ast.Expr(ast.Constant(str(text))):
                        yield Docstring(after.lineno, text, False, annotates_bool(getattr(field, "annotation", None)))


def annotates_bool(annotation: ast.expr | None) -> bool:
    """Whether ``annotation`` is bool, also as one of several types."""
    return annotation is not None and re.search(r"\bbool\b", ast.unparse(annotation)) is not None


def banned_terms(source: str, examples: Collection[str] = ()) -> Iterator[str]:
    """Yields each banned term in a comment, docstring or message that is not one of ``examples``."""
    if not ANY_BANNED.search(source):
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in TEXT and token.string.strip("\"'") not in examples:
            for term, better in BANNED.items():
                if re.search(rf"\b(?:{term})\b", token.string, re.IGNORECASE):
                    yield f"line {token.start[0]}: {term!r}; write {better!r}"


def test_docstrings_begin_with_a_sentence_or_a_noun_phrase() -> None:
    found = {path: [fault for one in docstrings(tree(ROOT / path)) for fault in one.faults()] for path in SOURCES}
    assert {path: faults for path, faults in found.items() if faults} == {}


def test_no_term_is_used_that_has_a_better_one() -> None:
    found = {path: [*banned_terms((ROOT / path).read_text(), EXAMPLES.get(path.as_posix(), ()))] for path in SOURCES}
    assert {path: terms for path, terms in found.items() if terms} == {}


def test_no_setting_is_described_with_a_term_that_has_a_better_one() -> None:
    """The comments of conf/ and slurm/; studies also have sentences there."""
    files = [
        path for folder in ("conf", "slurm") for path in (ROOT / folder).rglob("*") if path.suffix in CONFIGURATION
    ]
    lines = ((path.relative_to(ROOT), line) for path in files for line in path.read_text(encoding="utf-8").splitlines())
    found = [
        (path, term) for path, line in lines for term in BANNED if re.search(rf"\b(?:{term})\b", line, re.IGNORECASE)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("source", "faults"),
    [
        ('"""What a rank holds."""', 1),
        ('"""Whether it is whole."""', 1),
        ('def whole() -> bool:\n    """Whether it is whole."""', 0),
        ('class Page:\n    is_whole: bool\n    """Whether it is whole."""', 0),
        ('class Page:\n    size: int\n    """How large it is."""', 1),
        ('def size() -> int:\n    """Return the size."""', 1),
        ('def size() -> int:\n    """Returns the size."""', 0),
        ('class Count:\n    """Count of the documents."""', 0),
    ],
)
def test_faults_of_docstrings_are_found(source: str, faults: int) -> None:
    assert sum(len(list(docstring.faults())) for docstring in docstrings(ast.parse(source))) == faults


@pytest.mark.parametrize(
    ("source", "terms"),
    [("x = 1  # the row behind it", 1), ('print("told", f"anew {1}")', 2), ("behind = 1", 0), ('"""Behindhand."""', 0)],
)
def test_banned_terms_are_found(source: str, terms: int) -> None:
    assert len(list(banned_terms(source))) == terms
