"""A language model, in the order of the papers: embed, attend, normalize, predict.

Shapes: B rows, T positions, S positions of the encoder, P new tokens of all rows, M model width, N query heads or
positions, V vocabulary.

    tokens_BT ── embedding ── stack (stack.py) ──> norm(x) ── head (the embedding again when tied) ──> logits_BTV

    source tokens_BS ── embedding ── encoder ──> memory_BSM          model.stack=encoder_decoder: the decoder's layers
    tokens_BT        ── embedding ── stack   ──> norm(x) ── …        also attend to this memory

GPT-2 (Radford et al. 2019): learned positions, LayerNorm, GELU, biases, tied. LLaMA (Touvron et al. 2023): RoPE,
RMSNorm, SwiGLU, no biases. GPT-1 (Radford et al. 2018): as GPT-2, but post-norm and without a last norm.
T5 (Raffel et al. 2020): two stacks with one embedding, a learned bias by distance, RMSNorm, ReLU or GEGLU, no biases.
The vocabulary gets no padding rows; on a GPU the output layer pads its matrix products (head.py).
"""

import functools
from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from headrace.train.config import ModelConfig
from headrace.train.context import LEFT_TO_RIGHT
from headrace.train.data.batches import EncoderTokens, Pairs
from headrace.train.model.attention import CrossAttention, DenseAttention, EncoderOutput
from headrace.train.model.cache import ROW_MULTIPLE, Cache, NewTokens, rounded_up
from headrace.train.model.head import Head
from headrace.train.model.initialization import without_values
from headrace.train.model.layers import DetectionHead, PairHead, output_transform
from headrace.train.model.recurrence import DecoderCache, empty_cache
from headrace.train.model.stack import Stack
from headrace.train.model.visibility import BIDIRECTIONAL, OF_STACK, Visibility, logit_mask, of_own_source
from headrace.train.parts import WRITING


class Transformer(Stack):
    """A stack of Transformer layers between an embedding and an output layer, and an encoder that it reads, if any."""

    keeps_prefixes = True
    """A cache of a prefix saves its computation. A model without a cache has False here (recomputing.py)."""

    def __init__(self, config: ModelConfig, vocabulary: int) -> None:
        settle()
        super().__init__(config, nn.Embedding(vocabulary, config.embedding_width or config.width))
        self.vocabulary = vocabulary
        self.context_form = LEFT_TO_RIGHT
        """The form in which a trained model reads contexts."""
        self.transform = output_transform(config)
        self.head: Head | DetectionHead = DetectionHead(config)
        if config.stack != "discriminator":
            self.head = Head(self.embedding.embedding_dim, vocabulary, config.logit_cap, config.output_transform)
        if isinstance(self.head, Head) and config.tied:
            self.head.weight = self.embedding.weight
        self.pair_head = PairHead(config) if config.pair_head else None
        self.encoder = Stack(config.encoder) if config.stack == "encoder_decoder" else None
        if self.encoder is not None and config.shared_stacks:
            self.encoder.take_weights(self)

    @property
    def has_encoder(self) -> bool:
        """Whether an encoder reads the contexts, and the decoder only what follows them."""
        return self.encoder is not None

    def forward(
        self,
        tokens_BT: Tensor,
        positions_BT: Tensor,
        documents_BT: Tensor,
        targets_BT: Tensor | None = None,
        visibility: Visibility | None = None,
        prefix_BT: Tensor | None = None,
        z_loss: float = 0.0,
        at_BK: Tensor | None = None,
        source: EncoderTokens | None = None,
        segments_BT: Tensor | None = None,
        pairs: Pairs | None = None,
        kinds_B: Tensor | None = None,
        label_smoothing: float = 0.0,
    ) -> Tensor:
        """Returns logits_BTV in the dtype of the weights; with targets the sum of their -ln p in fp32 nats, a scalar.

        With ``at_BK`` the logits and targets are those of these positions alone: logits_BKV, targets_BK.
        A discriminator has logits_BT1, of "this token was replaced", and takes no targets.
        With targets and ``pairs`` there are three sums, (3,): that of the targets, that of -ln p of the labels of the
        pairs, and the number of labels that are not the likelier one.

        Args:
            tokens_BT: int64 token ids.
            positions_BT: int64, counted from 0 in each document, below ``config.context``.
            documents_BT: int64 number of the document that a position belongs to, -1 for padding.
            targets_BT: int64 token that each position has to predict, -100 for none.
            visibility: what positions see in their own document; None: that of ``config.stack``.
            prefix_BT: bool, positions that every position of their document sees in addition.
            z_loss: with targets, the weight of a further term of ``Head.forward``, whose sum follows.
            at_BK: int64 positions of each row whose logits are computed; None: all.
            source: what the encoder reads, for an encoder–decoder alone.
            segments_BT: int64 number of the part of a pair of texts, below ``config.segments``; None: 0.
            pairs: the pairs to predict the labels of, for a model with a pair head.
            kinds_B: with targets, the kind of each row: the sums of each kind follow (``Head.forward``).
            label_smoothing: with targets, the share of a uniform distribution in them; its sum follows.
        """
        memory = None if source is None else self.memory(source, documents_BT)
        rows = self.embedding(tokens_BT), positions_BT, documents_BT
        x_BTM = self.attended(*rows, visibility, prefix_BT, memory, segments_BT)
        wanted = () if targets_BT is None else (targets_BT, z_loss, kinds_B, label_smoothing)
        output: Tensor = self.head(self.transform(self.normed(chosen(x_BTM, at_BK))), *wanted)
        if pairs is None:
            return output
        assert self.pair_head is not None  # pipeline/config.py refuses the objective otherwise
        pair_sums = self.pair_head(self.normed(chosen(x_BTM, pairs.first_BP)), pairs.labels_BP)
        return torch.cat((output[None], pair_sums))

    def memory(self, source: EncoderTokens, documents_BT: Tensor) -> EncoderOutput:
        """Returns the encoder's output for decoders of the rows ``documents_BT``."""
        assert self.encoder is not None  # the objective makes a source for encoder–decoders alone
        vectors_BSM = self.embedding(source.tokens_BS)
        x_BSM = self.encoder.normed(self.encoder.attended(vectors_BSM, source.positions_BS, source.documents_BS))
        (rows, positions), places = documents_BT.shape, source.documents_BS.shape[1]
        queries_1T = torch.arange(positions, device=documents_BT.device)[None]
        seen = of_own_source(documents_BT, source.documents_BS)
        mask = logit_mask(seen, None, rows, self.config.heads, queries_1T, places, self.config.attention_cap)
        return EncoderOutput(x_BSM, DenseAttention(mask))

    def new_cache(self, rows: int) -> DecoderCache:
        """Returns a cache of ``rows`` sequences, all empty.

        Raises:
            ValueError: for an encoder: a new token changes what the known ones see, so nothing can be kept.
        """
        if self.config.stack not in WRITING:
            raise ValueError("an encoder has no cache: each new token changes the keys and values of all others")
        return empty_cache(self.config, rows, self.embedding.weight)

    @torch.inference_mode()
    def extend(
        self, cache: DecoderCache, tokens_P: Tensor, sizes_B: Tensor, visibility: Visibility | None = None
    ) -> Tensor:
        """Adds tokens to ``cache`` and returns x_PM, from which ``logits`` computes the logits after each new token.

        Args:
            cache: keys and values of each row so far, or its states.
            tokens_P: int64 ids of the new tokens, those of one row after those of the other.
            sizes_B: int64, how many new tokens each row has.
            visibility: what tokens see in their own row; None: that of ``config.stack``. One that looks ahead sees only
                tokens that the cache holds.

        Raises:
            ValueError: when a row gets longer than a table of positions (``config.most_positions``).
        """
        new = NewTokens(cache.lengths_B, sizes_B)
        longest, most = int(new.lengths_B.max()), self.config.most_positions
        if most is not None and longest > most:
            raise ValueError(f"{longest} tokens do not fit a context of {most}")
        return self.extended(self.embedding(tokens_P), new, cache, visibility)[0, : len(tokens_P)]

    def read_contexts(self, cache: DecoderCache, tokens_P: Tensor, sizes_B: Tensor) -> Tensor:
        """Adds whole contexts to the empty rows of ``cache``, as ``extend``, in the form that the model reads them.

        An encoder reads them where there is one: then the result is its output, which predicts nothing.
        """
        if self.encoder is not None:
            return self._read_source(cache, tokens_P, sizes_B)
        if self.context_form.looks_ahead:
            return self.extend(cache, tokens_P, sizes_B, BIDIRECTIONAL)
        return self.extend(cache, tokens_P, sizes_B)

    @torch.inference_mode()
    def _read_source(self, cache: DecoderCache, tokens_P: Tensor, sizes_B: Tensor) -> Tensor:
        assert self.encoder is not None  # asked by read_contexts
        assert isinstance(cache, Cache)  # a decoder with an encoder has attention
        source = empty_cache(self.encoder.config, len(sizes_B), self.embedding.weight)
        new = NewTokens(source.lengths_B, sizes_B)
        x_1PM = self.encoder.extended(self.embedding(tokens_P), new, source)
        crosses = (module for block in self.layers for module in block.modules() if isinstance(module, CrossAttention))
        cache.read_source(new, (cross.keys_and_values(x_1PM) for cross in crosses))
        return x_1PM[0, : len(tokens_P)]

    @torch.inference_mode()
    def logits(self, x_NM: Tensor) -> Tensor:
        """Returns logits_NV of positions of ``extend``."""
        missing = rounded_up(len(x_NM), ROW_MULTIPLE) - len(x_NM)
        logits_NV: Tensor = self.head(self.transform(functional.pad(x_NM, (0, 0, 0, missing))))
        return logits_NV[: len(x_NM)]

    @property
    def of_contexts(self) -> Visibility:
        """The tokens that each token of a context sees when the model reads it."""
        return BIDIRECTIONAL if self.context_form.looks_ahead else OF_STACK[self.config.stack]

    @torch.inference_mode()
    def attention_weights(self, tokens_BT: Tensor, visibility: Visibility | None = None) -> Iterator[Tensor]:
        """Yields weights_BNTT of each layer, in fp32, for rows of one document each, by default read as contexts.

        Raises:
            ValueError: for an encoder–decoder, whose layers attend to two sequences.
        """
        if self.encoder is not None:
            raise ValueError("the layers of an encoder-decoder attend to two sequences")
        for recorder in self.recorded(self.embedding(tokens_BT), visibility or self.of_contexts):
            yield recorder.weights_BNTT


def build_empty(config: ModelConfig, vocabulary: int) -> Transformer:
    """Returns the model that ``config`` describes on the meta device: names and shapes, and no memory for values."""
    with without_values():
        return Transformer(config, vocabulary)


def chosen(x_BTM: Tensor, at_BK: Tensor | None) -> Tensor:
    """Returns the vectors at ``at_BK``, int64 positions of each row; None: all."""
    return x_BTM if at_BK is None else x_BTM.gather(1, at_BK[:, :, None].expand(-1, -1, x_BTM.shape[2]))


def put_weights(model: nn.Module, values: Mapping[str, Tensor]) -> None:
    """Makes ``values`` the weights of ``model``, without a copy. One that several modules share has its first name."""
    replace_parameters(model, lambda name, _: nn.Parameter(values[name]))


def replace_parameters(model: nn.Module, made: Callable[[str, nn.Parameter], nn.Parameter]) -> None:
    """Replaces each parameter of ``model`` by what ``made`` returns for its name and itself; a shared one once."""
    new: dict[nn.Parameter, nn.Parameter] = {}
    for name, parameter in list(model.named_parameters(remove_duplicate=False)):
        if parameter not in new:
            new[parameter] = made(name, parameter)
        module, _, leaf = name.rpartition(".")
        setattr(model.get_submodule(module), leaf, new[parameter])


FUNCTIONS = (torch.cos, torch.erf, torch.exp, torch.expm1, torch.log, torch.log1p, torch.sin, torch.sqrt, torch.tanh)
"""Functions that models, objectives and optimizers may use; each takes 1."""


@functools.cache
def settle() -> None:
    """Calls each of FUNCTIONS once in one thread; only the first ``settle`` of a process does something.

    On a CPU, PyTorch computes them with Intel's oneMKL, which chooses a kernel during the first call. When several
    threads make it at once, one of them may compute its part with a kernel of low accuracy (torch 2.13 with oneMKL
    2024.2, github.com/pytorch/pytorch/issues/188792): the first gradient of a training then differs from that of
    another process, in 11 of 12,112 processes (benchmarks/train/first_calls.py).
    """
    for dtype in (torch.float32, torch.float64):
        element = torch.ones(1, dtype=dtype, device="cpu")  # a single element is computed in the calling thread
        for function in FUNCTIONS:
            function(element)
