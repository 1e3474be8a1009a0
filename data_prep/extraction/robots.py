"""Directives for robots: those for all of them, and those for one.

    "noindex, NoAI", "GPTBot: noarchive, nofollow"  ── with_directives ──>
        {"robots": "noindex, noai", "robots_by_agent": "gptbot: noarchive, nofollow"}

Source: the robots specification of Google Search, whose header X-Robots-Tag may name a robot before its directives.
"""

import re
from collections.abc import Iterable, Mapping

ALL, BY_AGENT = "robots", "robots_by_agent"
"""The facts."""
AGENT = re.compile(r"\s*(?!max-|unavailable_after)([\w*.-]+)\s*:")
"""The name of a robot. Some directives have a value after a colon, too."""


def with_directives(facts: Mapping[str, str], values: Iterable[str]) -> dict[str, str]:
    """Returns ``facts`` with the directives in ``values``, each as one header has it; in small letters, each once."""
    directives = directives_of(facts)
    for value in values:
        agent = ""
        for part in value.lower().replace(";", ",").split(","):
            if named := AGENT.match(part):
                agent, part = named[1].replace("*", ""), part[named.end() :]
            if directive := " ".join(part.split()):
                directives.setdefault(agent, {})[directive] = None
    general = ", ".join(directives.pop("", ()))
    by_agent = "; ".join(f"{agent}: {', '.join(own)}" for agent, own in directives.items())
    return {**facts, **({ALL: general} if general else {}), **({BY_AGENT: by_agent} if by_agent else {})}


def directives_of(facts: Mapping[str, str]) -> dict[str, dict[str, None]]:
    """Returns the directives in ``facts``: the name of a robot, "" for all of them → its directives, in order."""
    directives = {"": facts[ALL]} if facts.get(ALL) else {}
    directives |= dict(part.partition(": ")[::2] for part in facts.get(BY_AGENT, "").split("; ") if part)
    return {agent: dict.fromkeys(map(str.strip, own.split(","))) for agent, own in directives.items()}
