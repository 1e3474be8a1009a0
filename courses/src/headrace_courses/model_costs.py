"""What a model costs beside its training: in money, fine-tuned, and when it writes texts.

python -m headrace_courses.model_costs --gpu A100 model=llama2_7b evaluation.precision=bf16
python -m headrace_courses.model_costs --gpu TPUv3 --gpus 32 --price 2 experiment=bert_base source.paths=pages

The memory and the greatest speed of writing a text with a decoder:

    memory         s · N + rows · tokens · s · V         N parameters of s bytes, V cached values of a token
    decode         a step reads the weights once, and the keys and values that its rows see; it computes 2 N + 4 a K
                   operations for each row: a values of all heads, K keys of all layers. The slower of both decides.
    prefill        the prompt's tokens at once: operations alone decide

V = 2 · layers · key/value heads · head width, as train/model/cache.py has it. The cache keeps all tokens also in layers
with a window, where a step reads only those in the window; a model without attention has a state of one size instead.
Both speeds are bounds: a chip at its full bandwidth or peak FLOP/s, without the time of starting kernels, and with the
weights divided over the chips at no cost.
"""

import dataclasses
from collections.abc import Iterator, Sequence

import click

from headrace.pipeline.command_line.declaration import command
from headrace.pipeline.command_line.request import config_of
from headrace.pipeline.config import RunConfig
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import PositiveNumber, value_of
from headrace.pipeline.output.terminal import Fact, show, show_lines
from headrace.pipeline.report.formatting import rounded
from headrace.pipeline.run.costs import GB, Hardware, vocabulary_of
from headrace.train.config import ModelConfig
from headrace.train.cost.flops import Compute, flops_per_token
from headrace_courses.program import run

FINETUNED_EXAMPLES = 10_000
"""The examples of a fine-tuning whose files are not read."""

FORWARD = 1 / 3
"""The share of the forward pass in the operations of training."""


@dataclasses.dataclass(frozen=True)
class InferenceCost:
    """The cost of writing with ``model`` on chips of this memory, bandwidth and peak, all together."""

    model: ModelConfig
    vocabulary: int
    value_bytes: int
    memory_bytes: float
    bandwidth: float
    peak_flops: float

    @property
    def weight_bytes(self) -> int:
        return self.value_bytes * self.model.parameters(self.vocabulary)

    @property
    def read_weight_bytes(self) -> int:
        """The weights that each step reads: all but an embedding that is not the output layer."""
        width = self.model.embedding_width or self.model.width
        return self.weight_bytes - self.value_bytes * (not self.model.tied) * self.vocabulary * width

    def cache_bytes(self, tokens: int) -> int:
        """Returns the bytes of keys and values of one row of ``tokens``, or of its state."""
        return self.value_bytes * self.model.cache_values(tokens)

    def read_cache_bytes(self, tokens: int) -> int:
        """Returns the bytes of keys and values, or of the state, that the next token of such a row reads."""
        per_key = 2 * self.model.kv_heads * self.model.head_width
        of_states = self.model.layers * self.model.layer_state_values
        return self.value_bytes * (per_key * self.model.seen_tokens(tokens) + of_states)

    def most_rows(self, tokens: int) -> int:
        """Returns the number of rows of ``tokens`` whose cache fits in memory with the weights."""
        return max(0, int((self.memory_bytes - self.weight_bytes) // self.cache_bytes(tokens)))

    def forward_flops(self, tokens: int) -> float:
        """Returns the operations of one token that sees ``tokens`` positions."""
        return FORWARD * flops_per_token(self.model, self.vocabulary, tokens)

    def decode_tokens_per_second(self, rows: int, tokens: int) -> float:
        """Returns the most new tokens in a second, of all ``rows`` together."""
        read = self.read_weight_bytes + rows * self.read_cache_bytes(tokens)
        return rows / max(read / self.bandwidth, rows * self.forward_flops(tokens) / self.peak_flops)

    def prefill_tokens_per_second(self, tokens: int) -> float:
        """Returns the most tokens of prompts in a second."""
        return self.peak_flops / self.forward_flops(tokens)


BYTES = {"fp32": 4, "bf16": 2}
BATCHES = (1, 8, 64)
SHORTER = (16, 4, 1)
"""The lengths of the table are the context divided by these."""


def inference_cost(config: RunConfig, vocabulary: int, hardware: Hardware) -> InferenceCost:
    """Returns the cost on ``hardware``, in ``evaluation.precision``.

    Raises:
        ConfigError: when the model is no decoder, or no fp32 peak of the GPU is known.
    """
    if config.model.stack != "decoder":
        problem = f"is a model of stack {config.model.stack}, and writing is counted for decoders"
        raise ConfigError("model", problem, "give a decoder")
    precision, chip = config.evaluation.precision, hardware.accelerator
    peak = chip.fp32_flops if precision == "fp32" else chip.peak_flops
    if peak is None:
        remedy = "give evaluation.precision=bf16"
        raise ConfigError("--gpu", f"the peak of {hardware.gpu} in fp32 is not known", remedy)
    memory, bandwidth = hardware.memory_gb * GB * hardware.gpus, chip.bandwidth * hardware.gpus
    return InferenceCost(config.model, vocabulary, BYTES[precision], memory, bandwidth, peak * hardware.gpus)


def inference_facts(config: RunConfig, vocabulary: int, hardware: Hardware) -> Iterator[Fact]:
    """Yields the memory of weights and cache, and the speed of prompts."""
    cost, model, precision = inference_cost(config, vocabulary, hardware), config.model, config.evaluation.precision
    chips = f"{hardware.gpus} x {hardware.gpu}"
    yield "parameters", f"{model.parameters(vocabulary):,}  with a vocabulary of {vocabulary:,}"
    yield "weights", f"{cost.weight_bytes / GB:,.3g} GB in {precision} (evaluation.precision)"
    yield "cache", model.cache_formula(cost.value_bytes)
    if "window" in model.attention_pattern:
        read, kept = cost.read_cache_bytes(model.context), cost.cache_bytes(model.context)
        yield "windows", f"a step reads {read / kept:.1%} of the cache of {model.context:,} tokens; all of it is kept"
    yield "memory", f"{cost.memory_bytes / GB:,.4g} GB on {chips}"
    bounds = f"{cost.bandwidth / 1e12:,.3g} TB/s, {cost.peak_flops / 1e12:,.0f} TFLOP/s"
    yield "bounds", f"{bounds} ({hardware.accelerator.source})"
    length = model.context
    yield "prefill", f"at most {cost.prefill_tokens_per_second(length):,.0f} tokens/s of prompts of {length:,} tokens"


def inference_table(config: RunConfig, vocabulary: int, hardware: Hardware) -> tuple[list[str], list[list[str]]]:
    """Returns the head and the rows of a table of batch × length: the most new tokens in a second."""
    cost = inference_cost(config, vocabulary, hardware)
    lengths = [length for part in SHORTER if (length := config.model.context // part)]
    head = ["new tokens/s, all rows", *(f"{length:,} tokens" for length in lengths)]
    rows = [
        [
            f"{batch:,} row{'s' if batch > 1 else ''}",
            *(
                f"{cost.decode_tokens_per_second(batch, length):,.0f}" if batch <= cost.most_rows(length) else "–"
                for length in lengths
            ),
        ]
        for batch in BATCHES
    ]
    cache = ["GB of cache a row", *(f"{cost.cache_bytes(length) / GB:,.3g}" for length in lengths)]
    return head, [*rows, cache, ["rows that fit", *(f"{cost.most_rows(length):,}" for length in lengths)]]


def price_of(compute: Compute, hardware: Hardware, price: float) -> str:
    """Returns the price of the training, and of scoring, which costs a third of the operations of a token."""
    hours = hardware.hours(compute.flops)
    scoring = rounded(hardware.hours(compute.flops_per_token / 3 * 1e9) * price)
    return f"{rounded(hours * price)} for {hours:,.3g} GPU-hours at {price:g}; scoring: {scoring} for a billion tokens"


def fine_tuning(
    config: RunConfig, vocabulary: int, training_flops: float, hardware: Hardware, price: float | None = None
) -> str:
    """Returns the cost of the fine-tunings of all seeds: a bound, as if each example had the full length."""
    recipe = config.finetune
    assert recipe is not None
    targets = recipe.context if config.model.stack == "encoder_decoder" else None
    rows = recipe.steps * recipe.batch_rows if recipe.steps else recipe.epochs * FINETUNED_EXAMPLES
    seeds = len(recipe.seeds)
    flops = seeds * rows * recipe.context * flops_per_token(config.model, vocabulary, recipe.context, targets)
    length = (
        f"{recipe.steps:,} updates" if recipe.steps else f"{FINETUNED_EXAMPLES:,} examples, {recipe.epochs:g} epochs"
    )
    cost = "" if price is None else f", {rounded(hardware.hours(flops) * price)}"
    what = (
        f"{flops:.3g} FLOP{cost} at most: {length} of {recipe.context} tokens, {seeds} seed{'s' if seeds > 1 else ''}"
    )
    return f"{what}; the training costs {training_flops / flops:,.0f} times as much"


@command
@click.option("--gpus", metavar="NUMBER", default="", help="Number of GPUs; those of the configuration without it.")
@click.option("--gpu", metavar="NAME", default="", help="Their kind; H100 without it.")
@click.option("--mfu", metavar="FRACTION", default="", help="Share of the peak that is reached; 0.4 without it.")
@click.option("--price", metavar="PER_HOUR", default="", help="The price of one GPU for an hour.")
def model_costs(overrides: Sequence[str], gpus: str, gpu: str, mfu: str, price: str) -> None:
    """Prints the price of a training and the operations of a fine-tuning; of a decoder, what writing texts needs."""
    config = config_of(overrides)
    hardware = Hardware.of(gpus or str(config.training_ranks), gpu, mfu, "")
    vocabulary = vocabulary_of(config, overrides)
    per_hour = value_of(PositiveNumber, price, "--price") if price else None
    show(money_facts(config, vocabulary, hardware, per_hour))
    if config.model.stack == "decoder":
        show(inference_facts(config, vocabulary, hardware))
        show_lines(*inference_table(config, vocabulary, hardware))


def money_facts(config: RunConfig, vocabulary: int, hardware: Hardware, price: float | None) -> Iterator[Fact]:
    """Yields the cost of the fine-tuning, if ``config`` has one, and the price at ``price`` for an hour of a GPU."""
    targets = config.target_tokens
    compute = Compute.of(config.model, vocabulary, config.packing.row_tokens, config.training, targets)
    if config.finetune is not None:
        yield "fine-tuning", fine_tuning(config, vocabulary, compute.flops, hardware, price)
    if price is not None:
        yield "price", price_of(compute, hardware, price)


if __name__ == "__main__":
    run(model_costs)
