"""English words that carry grammar rather than meaning: what LAMBADA's stop-word filter passes over.

Closed classes, with forms and contractions as tokenizers part them. Which list GPT-2's authors took was not published.
"""

ARTICLES = "a an the"
PRONOUNS = """
i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his himself she her hers herself
it its itself they them their theirs themselves this that these those who whom whose which what
"""
QUANTIFIERS = "all any both each few more most no other some such own same only"
PREPOSITIONS = """
about above after against at before below between by down during for from in into of off on out over through to under
until up with
"""
CONJUNCTIONS = "and as because but if nor or so than then while"
ADVERBS = "again further here how just not now once there too very when where why"
AUXILIARIES = """
am is are was were be been being have has had having do does did doing can could will would shall should may might must
"""
CONTRACTED = "s t d ll m o re ve y don isn aren wasn weren haven hasn hadn doesn didn won wouldn shouldn couldn"

STOP_WORDS = frozenset(
    " ".join((ARTICLES, PRONOUNS, QUANTIFIERS, PREPOSITIONS, CONJUNCTIONS, ADVERBS, AUXILIARIES, CONTRACTED)).split()
)
"""In lower case."""
