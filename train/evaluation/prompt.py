"""Makes prompts of a benchmark's records, and tokens of prompts, both as lm-evaluation-harness does.

    <query><delimiter><answer><shot delimiter> … <query>   the context: worked examples, then the question
    <delimiter><choice>                                    the continuation, one query per choice

The harness's names: delimiter = target_delimiter (" "), shot delimiter = fewshot_delimiter (blank line).
"""

import random
from collections import Counter
from collections.abc import Sequence

import numpy as np

from headrace.pipeline.core.errors import ConfigError
from headrace.train.inference.queries import LikelihoodQuery, Text, TextEncoder, TokenQuery


def shot_numbers(queries: Sequence[str], shots: int, seed: int | str) -> list[list[int]]:
    """Returns for each query the indices of ``shots`` others that serve as its worked examples.

    One generator goes through the queries in order and draws one example more than needed, in case the item itself is
    among them: the draws of lm-evaluation-harness (api/samplers.py, ContextSampler) when items and examples are of one
    split. So a limit changes nothing. Neither the item itself is taken nor another item with the same query (the
    harness would take one with other answers).

    Raises:
        ConfigError: when the file has too few other records.
    """
    if not shots:
        return [[] for _ in queries]
    copies, generator = Counter(queries), random.Random(seed)
    numbers = []
    for query in queries:
        if len(queries) - copies[query] < shots:
            raise too_many_shots(shots, len(queries))
        drawn = generator.sample(range(len(queries)), shots + 1)
        others = [number for number in drawn if queries[number] != query][:shots]
        if len(others) < shots:
            others = generator.sample([n for n, other in enumerate(queries) if other != query], shots)
        numbers.append(others)
    return numbers


def too_many_shots(shots: int, records: int) -> ConfigError:
    return ConfigError("evaluation.benchmarks", f"{shots} shots of {records} records", "ask for fewer shots")


def encode(queries: Sequence[LikelihoodQuery], encoder: TextEncoder, opening: Sequence[int] = ()) -> list[TokenQuery]:
    """Returns the tokens of each query's context and continuation.

    As lm-evaluation-harness's ``_encode_pair`` (api/model.py): white space at the end of the context moves to the
    continuation; context and continuation are tokenized as one text, which is cut after the number of tokens of the
    context alone. An empty context becomes the end-of-text token; any other comes after the tokens of ``opening``. If
    the cut leaves the continuation without tokens (a merge across it), the continuation is tokenized on its own.
    """
    moved = [_space_moved(query) for query in queries if isinstance(query, Text)]
    contexts = encoder.encode([context for context, _ in moved])
    wholes = encoder.encode([context + continuation for context, continuation in moved])
    texts = zip(contexts, wholes, [continuation for _, continuation in moved], strict=True)
    tokens = [query if isinstance(query, TokenQuery) else _cut(*next(texts), encoder, opening) for query in queries]
    kinds = {query.passed_over for query in queries if isinstance(query, Text)}
    passed_over = {texts: _single_tokens(texts, encoder) for texts in kinds}
    return [
        _as_asked(query, token_query, passed_over[query.passed_over]) if isinstance(query, Text) else token_query
        for query, token_query in zip(queries, tokens, strict=True)
    ]


def _single_tokens(texts: Sequence[str], encoder: TextEncoder) -> tuple[int, ...]:
    """Returns the tokens of those ``texts`` that are one token, in order."""
    return tuple(sorted({int(ids[0]) for ids in encoder.encode(texts) if len(ids) == 1}))


def _as_asked(query: Text, tokens: TokenQuery, passed_over: tuple[int, ...]) -> TokenQuery:
    """Returns ``tokens`` with the settings of ``query`` for its first and last token."""
    given = tokens.continuation[: -1 if query.last_token else 0]
    context = np.concatenate([tokens.context, given])
    return TokenQuery(context, tokens.continuation[len(given) :], passed_over)


def _space_moved(query: Text) -> tuple[str, str]:
    context = query.context.rstrip()
    return context, query.context[len(context) :] + query.continuation


def _cut(context: np.ndarray, whole: np.ndarray, text: str, encoder: TextEncoder, opening: Sequence[int]) -> TokenQuery:
    continuation = whole[len(context) :]
    if not len(continuation):
        (continuation,) = encoder.encode([text])
    return TokenQuery(np.array([*opening, *context] if len(context) else [encoder.end_of_text]), continuation)
