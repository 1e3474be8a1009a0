"""The cost of writing texts with the model of a configuration, before it is trained: memory and bounds of speed.

weights            13.5 GB in bf16
cache              524,288 bytes a token = 2 · 32 layers · 32 key/value heads · 128 wide · 2 bytes
                       512 tokens  2,048 tokens     new tokens/s of all rows; the last line is the most that fits
1 row                         247           228
"""

from collections.abc import Iterator

from headrace.pipeline.config import RunConfig
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.output.facts import Fact
from headrace.pipeline.run.hardware import Hardware
from headrace.train.cost.inference import InferenceCost

BYTES = {"fp32": 4, "bf16": 2}
BATCHES = (1, 8, 64)
SHORTER = (16, 4, 1)
"""The lengths of the table are the context divided by these."""
GB = 1e9


def inference_cost(config: RunConfig, vocabulary: int, hardware: Hardware) -> InferenceCost:
    """Returns the cost on ``hardware``, in ``evaluation.precision``.

    Raises:
        ConfigError: when the model is no decoder, or no fp32 peak of the GPU is known.
    """
    if config.model.stack != "decoder":
        problem = f"is a model of stack {config.model.stack}, and --inference counts decoders"
        raise ConfigError("model", problem, "leave out --inference, or give a decoder")
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
    yield (
        "cache",
        f"{cost.cache_bytes(1):,} bytes a token = 2 · {model.layers} layers · {model.kv_heads} key/value heads"
        f" · {model.head_width} wide · {cost.value_bytes} bytes",
    )
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
            f"{batch:,} row{'s' * (batch > 1)}",
            *(
                f"{cost.decode_tokens_per_second(batch, length):,.0f}" if batch <= cost.most_rows(length) else "–"
                for length in lengths
            ),
        ]
        for batch in BATCHES
    ]
    cache = ["GB of cache a row", *(f"{cost.cache_bytes(length) / GB:,.3g}" for length in lengths)]
    return head, [*rows, cache, ["rows that fit", *(f"{cost.most_rows(length):,}" for length in lengths)]]
