"""From queries of every kind to the model's answers.

Text, Tokens ── prompt.encode ── scorer ──────> Answer
Attention ─────────────────────── scorer ─────> HeadWeights
Generate ─────────────────────── generator ───> Written
"""

from collections import defaultdict
from collections.abc import Sequence

from headrace.train.evaluation.prompt import encode
from headrace.train.inference.generation.generator import generator_of
from headrace.train.inference.generation.settings import Sampling
from headrace.train.inference.item import AnyAnswer, Attention, Generate, Query, Written
from headrace.train.inference.scorer import Tally
from headrace.train.inference.subject import Subject


def answered(queries: Sequence[Query], subject: Subject) -> tuple[list[AnyAnswer], Tally]:
    """One answer per query, in their order; the tally is of those that read or write text."""
    looks = [query for query in queries if isinstance(query, Attention)]
    texts = [query for query in queries if not isinstance(query, (Attention, Generate))]
    answers, tally = subject.scorer.answers(encode(texts, subject.tokenizer, subject.opening))
    written, tally_of_written = texts_written([query for query in queries if isinstance(query, Generate)], subject)
    found = {Attention: map(subject.scorer.head_weights, looks), Generate: iter(written)}
    likelihoods = iter(answers)
    return [next(found.get(type(query), likelihoods)) for query in queries], tally + tally_of_written


def texts_written(queries: Sequence[Generate], subject: Subject) -> tuple[list[Written], Tally]:
    """What the model writes greedily for each query.

    A model whose window is not longer than ``max_tokens`` writes half a window at most.
    """
    if not queries:
        return [], Tally()
    generator, window, tally = generator_of(subject), subject.scorer.window_tokens, Tally()
    places: dict[tuple[tuple[str, ...], int], list[int]] = defaultdict(list)
    for place, query in enumerate(queries):
        places[query.stops, query.max_tokens if query.max_tokens < window else window // 2].append(place)
    found: dict[int, Written] = {}
    for (stops, max_tokens), own in places.items():
        prompts = [queries[place].context for place in own]
        texts = generator.generate(prompts, Sampling(max_tokens=max_tokens, stops=stops))
        for place, made in zip(own, texts, strict=True):
            found[place] = Written(made.text, len(made.tokens))
            tally += Tally(1, len(made.tokens), int(made.lost_tokens > 0), made.lost_tokens)
    return [found[place] for place in range(len(queries))], tally
