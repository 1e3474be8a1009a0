"""From a benchmark's records to prompts, and from prompts to tokens, both as lm-evaluation-harness does it.

    <query><delimiter><answer><shot delimiter> … <query>   the context: worked examples, then the question
    <delimiter><choice>                                    the continuation, one query per choice

The harness's names: delimiter = target_delimiter (" "), shot delimiter = fewshot_delimiter (blank line).
"""

import random
from collections import Counter
from collections.abc import Sequence

import numpy as np

from headrace.pipeline.core.errors import ConfigError
from headrace.train.inference.item import Likelihood, Text, Tokens
from headrace.train.inference.subject import TextEncoder


def shot_numbers(queries: Sequence[str], shots: int, seed: int | str) -> list[list[int]]:
    """For each query, the numbers of ``shots`` others that serve as its worked examples.

    One generator goes through the queries in their order and draws one example more than is needed, in case the item
    is among them: the draws of lm-evaluation-harness (api/samplers.py, ContextSampler) where items and examples are of
    one split. So a limit changes nothing. Never the item itself, nor another with the same query (the harness would
    take one that differs in its answers).

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


def encode(queries: Sequence[Likelihood], encoder: TextEncoder, opening: Sequence[int] = ()) -> list[Tokens]:
    """Tokens of each query's context and continuation.

    As lm-evaluation-harness's ``_encode_pair`` (api/model.py): white space at the end of the context moves to the
    continuation; context and continuation are tokenized as one text and cut after as many tokens as the context alone
    has. An empty context becomes the end-of-text token; any other follows the tokens of ``opening``. Where the cut
    leaves the continuation without tokens (a merge across it), the continuation is tokenized on its own.
    """
    moved = [_space_moved(query) for query in queries if isinstance(query, Text)]
    contexts = encoder.encode([context for context, _ in moved])
    wholes = encoder.encode([context + continuation for context, continuation in moved])
    texts = zip(contexts, wholes, [continuation for _, continuation in moved], strict=True)
    asked = [query if isinstance(query, Tokens) else _cut(*next(texts), encoder, opening) for query in queries]
    kinds = {query.passed_over for query in queries if isinstance(query, Text)}
    passed_over = {texts: _single_tokens(texts, encoder) for texts in kinds}
    return [
        _read_so(query, tokens, passed_over[query.passed_over]) if isinstance(query, Text) else tokens
        for query, tokens in zip(queries, asked, strict=True)
    ]


def _single_tokens(texts: Sequence[str], encoder: TextEncoder) -> tuple[int, ...]:
    """Those of ``texts`` that are one token, in order."""
    return tuple(sorted({int(ids[0]) for ids in encoder.encode(texts) if len(ids) == 1}))


def _read_so(query: Text, tokens: Tokens, passed_over: tuple[int, ...]) -> Tokens:
    """``tokens`` with what the query says of its first and its last token."""
    given = tokens.continuation[: -1 if query.last_token else 0]
    context = np.concatenate([tokens.context, given])
    return Tokens(context, tokens.continuation[len(given) :], passed_over)


def _space_moved(query: Text) -> tuple[str, str]:
    context = query.context.rstrip()
    return context, query.context[len(context) :] + query.continuation


def _cut(context: np.ndarray, whole: np.ndarray, text: str, encoder: TextEncoder, opening: Sequence[int]) -> Tokens:
    continuation = whole[len(context) :]
    if not len(continuation):
        (continuation,) = encoder.encode([text])
    return Tokens(np.array([*opening, *context] if len(context) else [encoder.end_of_text]), continuation)
