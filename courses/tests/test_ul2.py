"""UL2: rows equal an independent slow implementation; losses and scores of one stack and of two."""

import collections
import dataclasses
import functools
import itertools

import numpy as np
import pytest
import torch
from torch.nn import functional

from headrace.pipeline.core.errors import ConfigError
from headrace.train.context import ContextForm
from headrace.train.data.batches import EncoderTokens, stacked
from headrace.train.data.order import row_generator
from headrace.train.inference.generator import Generator
from headrace.train.inference.queries import TokenQuery
from headrace.train.inference.settings import Sampling
from headrace.train.objectives.base import Vocabulary, of_stack
from headrace_courses.ul2 import Ul2
from tests.train import updates
from tests.train.objectives import test_further_terms as further
from tests.train.objectives.test_objective import target_mean
from tests.train.objectives.two_terms import TWO_STACKS, built, denoising_batch
from tests.train.small_models import likelihood_of, model_of

END, START, NLU, NLG, S2S = 1, 2, 5, 6, 7
ONE = Ul2(sentinels=20)
TWO = of_stack(ONE, "encoder_decoder")
UL2_VOCABULARY = Vocabulary(
    updates.VOCABULARY, {token: 5 + index for index, token in enumerate(TWO.special_tokens())}, end=1, decoder_start=2
)
CAUSAL = Ul2(sentinels=20, input_mask="causal")
DENOISERS = (
    (NLU, 3, 0.15), (NLU, 8, 0.15), (NLG, 3, 0.5), (NLG, 8, 0.5), (NLG, 64, 0.15), (NLG, 64, 0.5), (S2S, None, 0.25),
)  # fmt: skip
"""Mode token, mean span, rate."""


def slow(text: list[int], generator: np.random.Generator) -> tuple[list[int], list[int]]:
    """The inputs and targets of a text, with their ends, token by token."""
    mode, mean_span, rate = DENOISERS[generator.integers(7)]
    masked = max(1, min(round(len(text) * rate), len(text) - 1))
    if mean_span is None:
        return [mode, *text[:-masked], END], [*text[-masked:], END]
    spans = max(1, min(round(masked / mean_span), len(text) - masked))
    lengths = []
    for total in (masked, len(text) - masked):
        cuts = [0, *sorted(1 + int(cut) for cut in generator.choice(total - 1, spans - 1, replace=False)), total]
        lengths.append([after - before for before, after in itertools.pairwise(cuts)])
    inputs, targets, rest = [mode], [], list(text)
    for span, (hidden, kept) in enumerate(zip(*lengths, strict=True)):
        sentinel = UL2_VOCABULARY.special_ids[f"<extra_id_{span}>"]
        inputs += [*rest[:kept], sentinel]
        targets += [sentinel, *rest[kept : kept + hidden]]
        rest = rest[kept + hidden :]
    assert not rest
    return [*inputs, END], [*targets, END]


def test_rows_are_those_of_a_slow_implementation():
    row_tokens = ONE.text_tokens(160)
    modes = collections.Counter()
    for number in range(200):
        length = row_tokens if number % 2 else 2 + number // 2 % (row_tokens - 1)
        text = row_generator(1, "text", number).integers(30, 40, length).tolist()
        inputs, targets = slow(text, row_generator(0, "test", number))
        modes[inputs[0]] += 1
        pieces = [np.array([END, *text[:9]]), np.array([text[9] if length > 9 else 0, *text[9:]])]
        one = ONE.row(pieces, row_tokens, UL2_VOCABULARY, row_generator(0, "test", number))
        size = len(inputs) + len(targets) - 1
        assert one["inputs"][:size].tolist() == [*inputs, *targets[:-1]]
        assert one["targets"][:size].tolist() == [-100] * (len(inputs) - 1) + targets
        assert one["prefix"].tolist() == [1] * len(inputs) + [0] * (160 - len(inputs))
        causal = CAUSAL.row(pieces, row_tokens, UL2_VOCABULARY, row_generator(0, "test", number))
        assert not causal.pop("prefix").any()
        assert all((causal[name] == one[name]).all() for name in causal)
        two = TWO.row(pieces, row_tokens, UL2_VOCABULARY, row_generator(0, "test", number))
        assert two["encoder_inputs"][two["encoder_documents"] == 0].tolist() == inputs
        assert two["targets"][two["targets"] >= 0].tolist() == targets
        assert two["inputs"][two["documents"] == 0].tolist() == [START, *targets[:-1]]
        assert one["kind"] == two["kind"] == (NLU, NLG, S2S).index(inputs[0])
    shares = [modes[mode] / 200 for mode in (NLU, NLG, S2S)]
    assert shares == pytest.approx([2 / 7, 4 / 7, 1 / 7], abs=0.1)


def test_the_longest_row_of_every_denoiser_fits():
    assert (Ul2().text_tokens(128), Ul2().text_tokens(512)) == (94, 382)
    assert (Ul2().positions(382), Ul2().positions(383)) == (512, 513)
    paper = of_stack(Ul2(), "encoder_decoder")
    lengths = paper.lengths(paper.text_tokens(512))
    assert (paper.text_tokens(512), lengths["encoder_inputs"], lengths["targets"]) == (567, 512, 380)
    with pytest.raises(ConfigError) as error:
        TWO.text_tokens(128)
    wrong = "is 20, and a row of 140 tokens has 23 spans; give 23, or make packing.row_tokens smaller"
    assert str(error.value) == f"objective.sentinels: {wrong}"


def test_a_causal_mask_of_the_inputs_is_one_of_a_single_stack():
    assert not CAUSAL.context_form(UL2_VOCABULARY).looks_ahead
    with pytest.raises(ConfigError) as error:
        of_stack(CAUSAL, "encoder_decoder")
    assert str(error.value).startswith(
        "objective.input_mask: is causal, and the encoder of model.stack=encoder_decoder"
    )


def test_a_row_of_padding_has_no_target():
    for objective, pieces in itertools.product((ONE, TWO), ([], [np.array([1, 3])])):
        row = objective.row(pieces, 40, UL2_VOCABULARY, row_generator(0, "test", 0))
        assert set(objective.counts(stacked([row])).values()) == {0}


def test_losses_of_each_kind_are_logged_and_only_their_sum_is_trained():
    model = built(dataclasses.replace(TWO_STACKS, stack="decoder", encoder_layers=None, context=160))
    texts = [row_generator(1, "text", number).integers(30, 40, 50) for number in range(8)]
    rows = [
        ONE.row([np.array([END, *text])], 60, UL2_VOCABULARY, row_generator(0, "test", number))
        for number, text in enumerate(texts)
    ]
    arrays = stacked(rows)
    batch = {name: torch.from_numpy(array) for name, array in arrays.items()}
    sums, counts = ONE.losses(model, batch), ONE.counts(arrays)
    rest = (batch[name] for name in ("inputs", "positions", "documents"))
    logits_BTV = model(*rest, prefix_BT=batch["prefix"].bool())
    nll_B = functional.cross_entropy(logits_BTV.transpose(1, 2), batch["targets"], reduction="none").sum(1)
    kinds = arrays["kind"][:, 0]
    for number, name in enumerate(("regular", "extreme", "sequential")):
        assert counts[name] == (arrays["targets"][kinds == number] >= 0).sum() > 0
        torch.testing.assert_close(sums[name], nll_B[torch.from_numpy(kinds == number)].sum(), rtol=1e-5, atol=0)
        assert ONE.weights[name] == 0.0
    torch.testing.assert_close(sums["denoising"], nll_B.sum(), rtol=1e-5, atol=0)
    assert counts["denoising"] == sum(counts.values()) - counts["denoising"]


@pytest.mark.parametrize("stack", ["decoder", "encoder_decoder"])
def test_scores_and_generation_ask_the_sequential_denoiser(stack):
    objective = of_stack(ONE, stack)
    model = built(dataclasses.replace(TWO_STACKS, stack=stack, encoder_layers=None, context=64)).eval()
    model.context_form = form = objective.context_form(UL2_VOCABULARY)
    given = () if stack == "decoder" else (START,)
    assert form == ContextForm(looks_ahead=True, opening=(S2S,), ending=(END,), given=given)

    def logits_after(context: list[int], written: list[int]) -> torch.Tensor:
        """The logits of each token of ``written``, and of the next one, from whole rows."""
        read = [S2S, *context, END]
        tokens, source = ([*read, *written], None) if stack == "decoder" else ([START, *written], rows_of(read))
        prefix_BT = torch.arange(len(tokens))[None] < len(read) if source is None else None
        with torch.inference_mode():
            return model(*rows_of(tokens), prefix_BT=prefix_BT, source=source and EncoderTokens(*source))[
                0, -len(written) - 1 :
            ]

    generator = np.random.default_rng(0)
    queries = [TokenQuery(*(generator.integers(30, 40, size) for size in sizes)) for sizes in ((5, 3), (1, 1), (80, 4))]
    for query, answer in zip(queries, likelihood_of(model, 64).answers(queries), strict=True):
        rest = query.continuation.tolist()
        context = query.context[-form.capacity(64, stack != "decoder").context_beside(len(rest) - 1) :].tolist()
        log_probs = logits_after(context, rest)[:-1].log_softmax(1)
        expected = log_probs[torch.arange(len(rest)), torch.tensor(rest)].sum().item()
        assert answer.log_likelihood == pytest.approx(expected, abs=1e-4)
    (found,) = Generator(model_of(model, Numbers(), model.vocabulary)).generate(["30 31 32"], Sampling(max_tokens=4))
    written: list[int] = []
    while len(written) < 4 and END not in written:
        written.append(int(logits_after([30, 31, 32], written)[-1].argmax()))
    assert list(found.tokens) == written


class Numbers:
    """A tokenizer whose tokens are written as numbers."""

    end_of_text = END

    def encode(self, texts: list[str]) -> list[np.ndarray]:
        return [np.array([int(word) for word in text.split()]) for text in texts]

    def decode(self, ids: list[int], skip_special_tokens: bool = False) -> str:
        return " ".join(map(str, ids))


def rows_of(tokens: list[int]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Tokens, positions and documents of one row."""
    ids = torch.tensor([tokens])
    return ids, torch.arange(len(tokens))[None], torch.zeros_like(ids)


def kind_means(model, whole) -> dict[str, torch.Tensor]:
    """The means over the decoder's targets of all rows, and of those of each kind."""
    found = target_mean(model, whole)
    for number, name in enumerate(("regular", "extreme", "sequential")):
        is_chosen = (whole["kind"][:, 0] == number) & (whole["targets"] >= 0).any(1)
        if is_chosen.any():
            with torch.no_grad():
                found[name] = target_mean(model, updates.select(whole, is_chosen))["denoising"]
    return found


def test_losses_are_plain_pytorchs() -> None:
    model, whole = built(TWO_STACKS), denoising_batch(TWO, UL2_VOCABULARY)
    sums, counts = TWO.losses(model, whole), updates.counts(TWO, whole)
    for term, mean in kind_means(model, whole).items():
        torch.testing.assert_close(sums[term] / counts[term], mean, rtol=1e-6, atol=1e-6)


def test_further_terms_are_trained() -> None:
    further.test_the_terms_are_trained_and_the_printed_loss_is_without_them(
        TWO, functools.partial(built, TWO_STACKS), functools.partial(denoising_batch, TWO, UL2_VOCABULARY)
    )
