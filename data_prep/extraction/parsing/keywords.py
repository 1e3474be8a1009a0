"""Keywords in the classes and ids of elements: words that sites use alike, also inside longer ones.

    class="postBody-commentList" ──> POST | BODY | COMMENT | LIST

All words are found in one pass over the bytes (Aho & Corasick, "Efficient string matching", CACM 1975).
"""

from collections import deque

import numpy as np
from numpy.typing import NDArray

CLASSES = {
    "comment": "comment reply respond discuss disqus thread",
    "share": "share sharing social follow twitter facebook linkedin whatsapp",
    "navigation": "nav menu crumb pager pagination",
    "foot": "foot copyright legal",
    "side": "sidebar aside widget rail",
    "related": "relat recommend similar suggest trending popular latest readmore",
    "advertisement": "advert sponsor promo banner adslot",
    "consent": "cookie consent gdpr privacy modal popup overlay newsletter subscri signup",
    "price": "price cart basket buy shipping delivery offer",
    "review": "review rating testimonial",
    "description": "desc detail spec feature overview about summary bullet",
    "title": "title headline heading",
    "about": "author byline date time meta publish posted",
    "content": "content main article story entry",
    "body": "body text copy prose rich markdown wysiwyg",
    "post": "post blog message topic",
    "list": "list item grid card tile teaser result",
    "form": "form search login input filter sort button btn",
    "label": "tag categor label badge",
    "picture": "image img photo galler video caption slider carousel figure",
    "user": "user profile avatar member signature",
    "product": "product",
    "question": "question answer faq accordion",
    "hidden": "hidden collaps sronly visually screenreader toggle tooltip",
    "head": "header masthead topbar hero logo",
    "code": "code highlight docs",
}
"""Class → the beginnings, middles or ends of words that name it."""
LETTERS = 26


def _automaton() -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Returns the states that follow each state and letter, and the classes, as bits, that end in each state."""
    follow: list[list[int]] = [[0] * LETTERS]
    classes = [0]
    for bit, words in enumerate(CLASSES.values()):
        for word in words.split():
            state = 0
            for letter in word.encode():
                if not follow[state][letter - 97]:
                    follow[state][letter - 97] = len(follow)
                    follow.append([0] * LETTERS)
                    classes.append(0)
                state = follow[state][letter - 97]
            classes[state] |= 1 << bit
    suffix, waiting = [0] * len(follow), deque(filter(None, follow[0]))
    while waiting:
        state = waiting.popleft()
        classes[state] |= classes[suffix[state]]
        for letter in range(LETTERS):
            after, shorter = follow[state][letter], follow[suffix[state]][letter]
            if after:
                suffix[after] = shorter
                waiting.append(after)
            else:
                follow[state][letter] = shorter
    return np.array(follow, np.int32), np.array(classes, np.int32)


FOLLOW, FOUND = _automaton()
