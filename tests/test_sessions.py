"""The pictures of the tutorials' sessions show what the tutorials show, which tests compare with what is printed."""

import html
import re
from collections import defaultdict

import pytest

from tests.end_to_end.tutorial import OMITTED, REPOSITORY, shape, steps

PIECE = re.compile(r'<text [^>]*clip-path="url\(#session-line-(\d+)\)"[^>]*>([^<]*)</text>')


def dense(line: str) -> str:
    """Returns the shape of ``line`` without spaces: a picture has none between pieces of different colours."""
    return re.sub("0+", "0", re.sub(r"\s", "", shape(line)))


def text_of(svg: str) -> str:
    """Returns the text of a picture as one dense line: it continues long lines in the next one."""
    lines = defaultdict(list)
    for number, piece in PIECE.findall(svg):
        lines[int(number)].append(html.unescape(piece))
    return dense("".join(dense("".join(lines[number])) for number in sorted(lines)))


@pytest.mark.parametrize("name", ["cluster", "curator", "researcher"])
def test_a_picture_shows_the_recorded_blocks_of_its_tutorial(name: str) -> None:
    picture, end = text_of((REPOSITORY / f"docs/images/session_{name}.svg").read_text()), 0
    for step in steps((REPOSITORY / f"docs/tutorial_{name}.md").read_text()):
        for line in (*f"$ {step.text}".splitlines(), *step.output) if getattr(step, "is_recorded", False) else ():
            if line.strip() != OMITTED:
                pattern = re.compile(".*?".join(re.escape(part) for part in dense(line).split(OMITTED)))
                found = pattern.search(picture, end)
                assert found, f"not in the picture: {line}; python -m docs.images.sessions {name}"
                end = found.end()
