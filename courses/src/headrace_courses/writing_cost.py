"""The memory and the greatest speed of writing a text with a decoder, before it exists.

    memory         s · N + rows · tokens · s · V         N parameters of s bytes, V cached values of a token
    decode         a step reads the weights once, and the keys and values that its rows see; it computes 2 N + 4 a K
                   operations for each row: a values of all heads, K keys of all layers. The slower of both decides.
    prefill        the prompt's tokens at once: operations alone decide

V = 2 · layers · key/value heads · head width, as train/model/cache.py has it. The cache keeps all tokens also in layers
with a window, where a step reads only those in the window; a model without attention has a state of one size instead.
Both speeds are bounds: a chip at its full bandwidth or peak FLOP/s, without the time of starting kernels, and with the
weights divided over the chips at no cost.

python -m headrace_courses.writing_cost --gpu A100 model=llama2_7b evaluation.precision=bf16

    weights            13.5 GB in bf16
    cache              524,288 bytes a token = 2 · 32 layers · 32 key/value heads · 128 wide · 2 bytes
                           512 tokens  2,048 tokens     new tokens/s of all rows; the last line is the most that fits
    1 row                         247           228
"""

import dataclasses
from collections.abc import Iterator, Sequence

import click

from headrace.pipeline.command_line.declaration import command
from headrace.pipeline.command_line.request import config_of
from headrace.pipeline.config import RunConfig
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.output.terminal import Fact, show, show_lines, terminal
from headrace.pipeline.run.costs import GB, Hardware, vocabulary_of
from headrace.train.config import ModelConfig
from headrace.train.cost.flops import flops_per_token
from headrace_courses.program import run as run_program

FORWARD = 1 / 3
"""The share of the forward pass in the operations of training."""
BYTES = {"fp32": 4, "bf16": 2}
BATCHES = (1, 8, 64)
SHORTER = (16, 4, 1)
"""The lengths of the table are the context divided by these."""


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


def inference_cost(config: RunConfig, vocabulary: int, hardware: Hardware) -> InferenceCost:
    """Returns the cost on ``hardware``, in ``evaluation.precision``.

    Raises:
        ConfigError: when the model is no decoder, or no fp32 peak of the GPU is known.
    """
    if config.model.stack != "decoder":
        problem = f"is a model of stack {config.model.stack}, and this counts decoders"
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


@command
@click.option("--gpus", metavar="NUMBER", default="", help="Number of GPUs; those of the configuration without it.")
@click.option("--gpu", metavar="NAME", default="", help="Their kind; H100 without it.")
@click.option("--gpu-memory-gb", metavar="GB", default="", help="Memory of one GPU; that of its kind without it.")
def writing_cost(overrides: Sequence[str], gpus: str, gpu: str, gpu_memory_gb: str) -> None:
    """Prints the memory and the greatest speed of writing texts with a model: batch x length; needs no data."""
    config = config_of(overrides)
    hardware = Hardware.of(gpus or str(config.training_ranks), gpu, "", gpu_memory_gb)
    vocabulary = vocabulary_of(config, overrides)
    show(inference_facts(config, vocabulary, hardware))
    terminal().print()
    show_lines(*inference_table(config, vocabulary, hardware))


if __name__ == "__main__":
    run_program(writing_cost)
