"""Labelled pages made by chance: sites with navigation, an article, and comments that do not belong to it."""

import random
from typing import Any

WORDS = [
    "mill", "river", "wheel", "stone", "flour", "water", "miller", "grain", "sack", "bridge", "village", "winter",
    "old", "morning", "road", "new", "turns", "grinds",
]  # fmt: skip


def sentence(chance: random.Random) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randint(8, 20))).capitalize() + "."


def labelled_page(number: int) -> dict[str, Any]:
    """Returns the page ``number``; three pages a site."""
    chance = random.Random(number)
    site = f"site{number // 3}.org"
    paragraphs = [" ".join(sentence(chance) for _ in range(chance.randint(1, 4))) for _ in range(chance.randint(2, 8))]
    title = sentence(chance)
    links = "".join(f"<li><a href=/{word}>{word} here</a>" for word in chance.sample(WORDS, 6))
    name = random.Random(site).choice(["content", "post", "article-body"])
    comments = "".join(f"<div class=comment><b>Ann</b><p>{sentence(chance)}</div>" for _ in range(chance.randint(0, 5)))
    html = (
        f"<title>{title} | Site</title><nav class=menu><ul>{links}</ul></nav><div class='{name}'><h1>{title}</h1>"
        + "".join(f"<p>{paragraph}" for paragraph in paragraphs)
        + f"</div><aside class=related><a href=/x>{sentence(chance)}</a></aside>{comments}<footer>All rights</footer>"
    )
    fields = {"html": html, "url": f"https://www.{site}/{number}", "page_type": "article" if number % 2 else "forum"}
    if number % 5:
        return fields | {"truth": "\n".join([title, *paragraphs])}
    return fields | {"snippets_in": [paragraphs[0]], "snippets_out": ["All rights", links.split(">")[2].split("<")[0]]}
