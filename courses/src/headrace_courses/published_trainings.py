"""Published trainings: their tokens, and the operations or GPU-hours that their authors or others state.

A model is an option of ``model``, or a shape where the program lacks a part. ``tokens`` are positions that the model
reads in all epochs; of an encoder–decoder those of its encoder. A number of operations is one of

    6 N D      6 · parameters · tokens               Brown et al. 2020, table D.1; Hoffmann et al. 2022
    3 N D      of an encoder–decoder, whose tokens pass through half of the parameters (table D.1)
    with attention, or without embeddings            PaLM; Clark et al. 2020
"""

import dataclasses

GPT3_TOKENS = 300e9
T5_TOKENS = 1e12
D1 = "Brown et al. 2020, table D.1"
LLAMA_HOURS = "Touvron et al. 2023, table 15"


@dataclasses.dataclass(frozen=True)
class PublishedShape:
    """The sizes of a model that no preset has, as far as its cost depends on them."""

    parameters: float
    layers: int
    attention_width: int
    row_tokens: int


@dataclasses.dataclass(frozen=True)
class PublishedTraining:
    """A training that was published."""

    model: str
    """An option of ``model``, or a name."""
    tokens: float | None
    """None: its authors do not state them."""
    source: str
    """The origin of ``tokens``."""
    flops: float | None = None
    flops_source: str = ""
    """The origin of ``flops``, and what it counts if not 6 N D."""
    gpu_hours: float | None = None
    gpu: str = ""
    gpu_source: str = ""
    shape: PublishedShape | None = None
    """None: that of the preset."""
    row_tokens: int | None = None
    """Positions of a row, of an encoder–decoder those of its encoder; None: the context of the preset."""
    target_tokens: int | None = None
    """Positions of the decoder in an encoder–decoder."""


def _gpt3(size: str, flops: float) -> PublishedTraining:
    return PublishedTraining(f"gpt3_{size}", GPT3_TOKENS, "Brown et al. 2020, table 2.1", flops, D1)


def _t5(size: str, flops: float) -> PublishedTraining:
    source, counts = "Raffel et al. 2020, section 3.7", f"{D1}; 3 N D"
    return PublishedTraining(f"t5_{size}", T5_TOKENS, source, flops, counts, row_tokens=512, target_tokens=114)


def _llama(name: str, tokens: float, gpu_hours: float, gpu: str, source: str, of_hours: str = "") -> PublishedTraining:
    return PublishedTraining(name, tokens, source, gpu_hours=gpu_hours, gpu=gpu, gpu_source=of_hours or source)


def _pythia(size: str, gpu_hours: float) -> PublishedTraining:
    source, steps = "Biderman et al. 2023", 143_000
    return PublishedTraining(
        f"pythia_{size}", steps * 2**21, source, gpu_hours=gpu_hours, gpu="A100", gpu_source=f"{source}, appendix D"
    )


ENCODERS = (
    PublishedTraining("bert_base", 250e9, D1, 1.64e20, D1),
    PublishedTraining("bert_large", 250e9, D1, 5.33e20, D1),
    PublishedTraining(
        "bert_base",
        1e6 * 2**17,
        "Devlin et al. 2019, A.2: 1 M x 256 x 512",
        6.4e19,
        "Clark et al. 2020, table 1; without embeddings, nine tenths in rows of 128",
    ),
    PublishedTraining(
        "bert_large",
        1e6 * 2**17,
        "Devlin et al. 2019, A.2: 1 M x 256 x 512",
        1.9e20,
        "Clark et al. 2020, table 2; without embeddings, nine tenths in rows of 128",
    ),
    PublishedTraining("roberta_base", 2e12, D1, 1.50e21, D1),
    PublishedTraining("roberta_large", 2e12, D1, 4.26e21, D1),
    PublishedTraining(
        "electra_small",
        1e6 * 2**14,
        "Clark et al. 2020, table 6",
        1.4e18,
        "Clark et al. 2020, table 1; without embeddings",
        row_tokens=128,
    ),
    PublishedTraining(
        "electra_base",
        766e3 * 2**17,
        "Clark et al. 2020, table 6",
        6.4e19,
        "Clark et al. 2020, table 1; without embeddings",
    ),
    PublishedTraining(
        "electra_large",
        1.75e6 * 2**20,
        "Clark et al. 2020, section 3.4",
        3.1e21,
        "Clark et al. 2020, table 8; without embeddings",
    ),
)

DECODERS = (
    PublishedTraining(
        "gpt1",
        100e9,
        "Radford et al. 2018: 100 epochs of about a billion tokens",
        0.96 * 8.64e19,
        "OpenAI 2018, of hours at a third of the peak",
    ),
    PublishedTraining("gpt2_xl", None, "Radford et al. 2019 state no length"),
    _gpt3("125m", 2.25e20),
    _gpt3("350m", 6.41e20),
    _gpt3("760m", 1.37e21),
    _gpt3("1_3b", 2.38e21),
    _gpt3("2_7b", 4.77e21),
    _gpt3("6_7b", 1.20e22),
    _gpt3("13b", 2.31e22),
    _gpt3("175b", 3.14e23),
    PublishedTraining(
        "LaMDA 137B",
        None,
        "Thoppilan et al. 2022 state 2.81 T tokens of data, not how many are read",
        3.55e23,
        "Thoppilan et al. 2022, section 10",
        shape=PublishedShape(137e9, 64, 128 * 128, row_tokens=0),  # rows are not stated
    ),
    PublishedTraining(
        "Gopher 280B",
        300e9,
        "Rae et al. 2021",
        5.76e23,
        "Hoffmann et al. 2022",
        shape=PublishedShape(280e9, 80, 128 * 128, 2_048),
    ),
    PublishedTraining(
        "Chinchilla 70B",
        1.4e12,
        "Hoffmann et al. 2022, table 1",
        5.76e23,
        "Hoffmann et al. 2022: the budget of Gopher",
        shape=PublishedShape(70e9, 80, 64 * 128, 2_048),
    ),
    PublishedTraining(
        "PaLM 540B",
        780e9,
        "Chowdhery et al. 2022, section 5",
        2.56e24,
        "Chowdhery et al. 2022; with attention",
        6_144 * 1_200 + 3_072 * 336,
        "TPUv4",
        "Chowdhery et al. 2022, section 4",
        shape=PublishedShape(540.35e9, 118, 48 * 256, 2_048),
    ),
    PublishedTraining(
        "opt_175b",
        300e9,
        "Zhang et al. 2022, section 2.2: length of the schedule",
        gpu_hours=809_472,
        gpu="A100",
        gpu_source=LLAMA_HOURS,
    ),
    PublishedTraining(
        "bloom_176b",
        366e9,
        "BigScience Workshop 2022, table 3",
        gpu_hours=1_082_880,
        gpu="A100",
        gpu_source=LLAMA_HOURS,
    ),
    PublishedTraining("gpt_neox_20b", 150e3 * 1_538 * 2_048, "Black et al. 2022"),
    _pythia("70m", 510),
    _pythia("160m", 1_030),
    _pythia("410m", 2_540),
    _pythia("1b", 4_830),
    _pythia("1_4b", 7_120),
    _pythia("2_8b", 14_240),
    _pythia("6_9b", 33_500),
    _pythia("12b", 72_300),
    _llama("llama_7b", 1.0e12, 82_432, "A100", "Touvron et al. 2023, table 2", LLAMA_HOURS),
    _llama("llama_13b", 1.0e12, 135_168, "A100", "Touvron et al. 2023, table 2", LLAMA_HOURS),
    _llama("llama_33b", 1.4e12, 530_432, "A100", "Touvron et al. 2023, table 2", LLAMA_HOURS),
    _llama("llama_65b", 1.4e12, 1_022_362, "A100", "Touvron et al. 2023, table 2", LLAMA_HOURS),
    _llama("llama2_7b", 2.0e12, 184_320, "A100", "Touvron et al. 2023b, tables 1 and 2"),
    _llama("llama2_13b", 2.0e12, 368_640, "A100", "Touvron et al. 2023b, tables 1 and 2"),
    _llama("llama2_70b", 2.0e12, 1_720_320, "A100", "Touvron et al. 2023b, tables 1 and 2"),
    _llama("llama3_8b", 15.0e12, 1_300_000, "H100", "model card of LLaMA 3"),
    _llama("llama3_70b", 15.0e12, 6_400_000, "H100", "model card of LLaMA 3"),
    PublishedTraining(
        "llama3_405b",
        15.6e12,
        "Dubey et al. 2024, section 3",
        3.8e25,
        "Dubey et al. 2024, section 3",
        30_840_000,
        "H100",
        "model card of LLaMA 3.1",
    ),
)

ENCODER_DECODERS = (
    _t5("small", 1.80e20),
    _t5("base", 6.60e20),
    _t5("large", 2.31e21),
    _t5("3b", 9.00e21),
    _t5("11b", 3.30e22),
    PublishedTraining(
        "transformer_base",
        100e3 * 25e3,
        "Vaswani et al. 2017, section 5: 25,000 tokens on either side",
        3.3e18,
        "Vaswani et al. 2017, table 2: hours at a sustained 9.5 TFLOP/s",
        row_tokens=25,  # about a sentence
        target_tokens=25,
    ),
    PublishedTraining(
        "transformer_big",
        300e3 * 25e3,
        "Vaswani et al. 2017, section 5: 25,000 tokens on either side",
        2.3e19,
        "Vaswani et al. 2017, table 2: hours at a sustained 9.5 TFLOP/s",
        row_tokens=25,  # about a sentence
        target_tokens=25,
    ),
)

PUBLISHED_TRAININGS = (*ENCODERS, *DECODERS, *ENCODER_DECODERS)
"""The trainings in the order of the table: by kind of stack, then by year."""
