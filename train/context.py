"""The form in which a trained model reads the context of a continuation. Free of torch.

A training objective determines it (``Objective.context_form``), config.json of an export records it, and likelihoods
and generation read contexts in it.
"""

import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True)
class ContextForm:
    """The form of a context; the default is that of a model trained from left to right."""

    looks_ahead: bool = False
    """Whether all tokens of a context see each other, as in a prefix LM; otherwise each sees only those before it."""
    opening: tuple[int, ...] = ()
    """Ids of tokens at the beginning of each context."""
    ending: tuple[int, ...] = ()
    """Ids of tokens at the end of each context."""
    given: tuple[int, ...] = ()
    """Ids of tokens that begin each continuation and are not scored; each sees only the tokens before it."""
    repeats_context: bool = False
    """Whether the decoder reads the context again, after the ``given`` tokens: one that restores the whole text."""
    stops: tuple[int, ...] = ()
    """Ids of tokens that end a generated text, besides end of text."""

    def capacity(self, window_tokens: int, two_stacks: bool) -> "Capacity":
        """Returns what fits a model of ``window_tokens`` positions; ``two_stacks``: in each of encoder and decoder."""
        of_context, of_continuation = len(self.opening) + len(self.ending), len(self.given)
        if two_stacks and not self.repeats_context:
            return Capacity(window_tokens - of_context, window_tokens - of_continuation, is_shared=False)
        extra = max(of_context, of_continuation) if self.repeats_context else of_context + of_continuation
        return Capacity(window_tokens - extra, window_tokens - extra, is_shared=True)

    def read(self, context: Sequence[int]) -> list[int]:
        """Returns the tokens of ``context`` as the model, or its encoder, reads them."""
        return [*self.opening, *context, *self.ending]

    def begun(self, context: Sequence[int]) -> list[int]:
        """Returns the tokens that begin the continuation of ``context`` and are not scored."""
        return [*self.given, *(context if self.repeats_context else ())]


LEFT_TO_RIGHT = ContextForm()
"""Every token sees itself and those before it."""


def whole_text_form(begin: int, end: int, mask: int) -> ContextForm:
    """Returns the form for an encoder–decoder that restores a whole text, as BART does.

    The encoder reads ``begin``, context, ``mask`` and ``end``; the decoder reads ``end``, ``begin`` and the context.
    """
    of_encoder = ContextForm(looks_ahead=True, opening=(begin,), ending=(mask, end))
    return dataclasses.replace(of_encoder, given=(end, begin), repeats_context=True, stops=(end,))


@dataclasses.dataclass(frozen=True)
class Capacity:
    """The most tokens that a model reads of a context and of its continuation, besides those of the context's form."""

    context: int
    continuation: int
    is_shared: bool
    """Whether both share the positions of one stack, or the decoder reads the context, too."""

    def context_beside(self, continuation: int) -> int:
        """Returns the length of the longest context that fits with a continuation of ``continuation`` tokens."""
        return self.context - continuation if self.is_shared else self.context
