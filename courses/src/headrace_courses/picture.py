"""A row of training and who sees whom in it, or where a trained model looks, as SVG.

python -m headrace_courses.picture model=llama_demo             a sentence, cut into words, and who sees whom
python -m headrace_courses.picture objective=prefix --to prefix.svg
python -m headrace_courses.picture model.attention_pattern=[window] model.window=2 --links 1.1        BigBird's links
python -m headrace_courses.picture --run small --tokens 40      the first row of a run's training, with its tokens
python -m headrace_courses.picture finetune=conversations finetune.train=a.jsonl finetune.validation=b.jsonl

python -m headrace_courses.picture --text "The mill stands." --run small          the weights of all attention heads
python -m headrace_courses.picture --text "The mill stands." --heads 2.0,5.3      of layer 2, head 0, …: all numbers
python -m headrace_courses.picture --text "Paris is the [MASK] of France." --model path/to/bert
python -m headrace_courses.picture --text "Paris is." --answer "Paris" --model path/to/t5    what the decoder has read
python -m headrace_courses.picture --units 3.17,5 --run small   layer 3, unit 17, and the strongest units of layer 5
python -m headrace_courses.picture --units 3.17 --model path/to/gpt2 --texts lines.txt

The row and the masks are those of a training step: objective and attention compute them as in training. The attention
of a text is that of the model's own layers, in its own precision: raw scores q·k / √D, scores with bias and mask, and
weights. Of a feed-forward unit it draws the texts that excite it most, of the held-out documents of the run or of a
file, and the tokens that its value vector promotes (Geva et al. 2021). Layers, heads and units count from 0.
"""

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit

from headrace.data_prep.tokenization.encode import Encoder
from headrace.data_prep.tokenization.special_tokens import END_OF_TEXT
from headrace.pipeline.command_line.declaration import NewFile, command, run_option
from headrace.pipeline.command_line.model_options import file_lines, model_folder
from headrace.pipeline.command_line.request import config_of, run_of
from headrace.pipeline.command_line.result_files import write_file
from headrace.pipeline.config import RunConfig
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import Positive, value_of
from headrace.pipeline.documents.lookup import need
from headrace.pipeline.documents.training_rows import INPUTS
from headrace.pipeline.output.terminal import one_line
from headrace.pipeline.run.planner import Run
from headrace.train.data.mixture import Mix, training_data
from headrace.train.data.rows import Pieces
from headrace.train.evaluation.held_out_documents import HeldOut, sample
from headrace.train.finetune.files.examples import Example
from headrace.train.finetune.settings import Finetune
from headrace.train.finetune.tasks.conversations import MESSAGES, Conversations
from headrace.train.finetune.tasks.sequences import Form
from headrace.train.finetuned import Finetuned
from headrace.train.inference.chat_template import DEFAULT_TEMPLATE, ChatTemplate
from headrace.train.inference.settings import Inference
from headrace.train.inference.transformers_model import open_folder
from headrace.train.objectives.base import Objective
from headrace_courses.model_pictures import HeadNumber, attention_picture, unit_picture
from headrace_courses.program import run as run_program
from headrace_courses.row_example import as_read, row_example
from headrace_courses.row_picture import svg
from headrace_courses.sparse_links import with_links
from headrace_courses.text_attention import LayerAttention, text_attention
from headrace_courses.unit_memories import UnitMemory, read_text, unit_memories

UNKNOWN = "[UNK]"
SENTENCES = ("The old mill stands by the river .", "Water turns the wheel all day .")
"""The documents of a picture without a run."""
TEXT_TOKENS = 64
"""The most tokens of a text whose attention is drawn, unless ``--tokens`` says otherwise."""
ROW_TOKENS = 24
TITLE_LETTERS = 80
MOST_TEXTS = 400
"""Held-out documents that are searched for what excites a unit."""


@command
@click.option("--to", metavar="FILE", default="picture.svg", type=NewFile(), help="The SVG file to write.")
@click.option("--tokens", metavar="N", default="", help="The most positions: 24 of a row, 64 of a text.")
@click.option("--text", metavar="TEXT", default="", help="Draw the attention of a trained model that reads TEXT.")
@click.option("--answer", metavar="TEXT", default="", help="What the decoder of an encoder-decoder reads.")
@click.option("--heads", metavar="LIST", default="", help="LAYER.HEAD,…: heads whose matrices are written as numbers.")
@click.option("--units", metavar="LIST", default="", help="Draw feed-forward units LAYER.UNIT, or the best of a LAYER.")
@click.option("--texts", metavar="FILE", default="", type=click.Path(), help="Texts for --units, one a line.")
@click.option("--links", metavar="GLOBAL.RANDOM", default="", help="Draw global tokens and random keys in windows.")
@click.option("--model", metavar="FOLDER", default="", type=click.Path(), help="A model in Hugging Face's format.")
@run_option
def picture(
    overrides: Sequence[str],
    to: Path,
    tokens: str,
    text: str,
    answer: str,
    heads: str,
    units: str,
    texts: str,
    links: str,
    model: str,
    run: str,
) -> None:
    """Draws who sees whom in a row of training, or attention or feed-forward units of a trained model."""
    of_text, of_units = {"--answer": answer, "--heads": heads}, {"--texts": texts}
    check_options({"--text": text} | of_text, {"--units": units} | of_units, {"--model": model})
    if units:
        drawing = unit_drawing(overrides, units, texts, model, run)
    elif text:
        config = config_of(overrides)
        folder = model_folder(config.root, model, run)
        most = value_of(Positive, tokens or str(TEXT_TOKENS), "--tokens")
        layers = attention(folder, config.evaluation, text, answer, most)
        drawing = attention_picture(f"attention: {one_line(text, TITLE_LETTERS)}", layers, chosen_heads(layers, heads))
    else:
        drawing = row_drawing(overrides, value_of(Positive, tokens or str(ROW_TOKENS), "--tokens"), run, links)
    write_file(to, drawing)
    print(to)


def check_options(of_text: Mapping[str, str], of_units: Mapping[str, str], of_both: Mapping[str, str]) -> None:
    """Refuses options without what they belong to, which is the first of each.

    Raises:
        ConfigError: naming the option.
    """
    (text, *_), (units, *_) = of_text.items(), of_units.items()
    if text[1] and units[1]:
        raise ConfigError(units[0], f"is given with {text[0]}", "draw one after the other")
    for options, needed in ((of_text, [text]), (of_units, [units]), (of_both, [text, units])):
        for name, value in options.items():
            if value and not any(given for _, given in needed):
                names = " or ".join(name for name, _ in needed)
                raise ConfigError(name, f"is given without {names}", f"give {names}, too, or leave it out")


def unit_drawing(overrides: Sequence[str], units: str, file: str, model: str, run: str) -> str:
    """Returns the picture of feed-forward ``units``, with the lines of ``file``, or a run's held-out documents."""
    asked = [unit_of(name.strip()) for name in units.split(",")]
    if file or model:
        config = config_of(overrides)
        texts: Sequence[str | NDArray[np.unsignedinteger]] = file_lines(Path(file), "--texts", "text") if file else []
        folder = model_folder(config.root, model, run)
    else:
        chosen = run_of(overrides, run)
        config, folder = chosen.config, need("weights", chosen.stages).verified_folder("hf")
        texts = held_out_texts(chosen, MOST_TEXTS)
    if not texts:
        raise ConfigError("--units", "there is no text that could excite a unit", "give --texts FILE, a text a line")
    title = f"feed-forward units; texts that excite them most, of {len(texts):,}"
    return unit_picture(title, memories(folder, config.evaluation, asked, texts))


def held_out_texts(run: Run, most: int) -> list[NDArray[np.unsignedinteger]]:
    """Returns the tokens of held-out documents of ``run`` as its training reads them, of ``most`` documents."""
    inputs = {name: need(name, run.stages) for name in ("tokens", "packed", "tokenizer")}
    encoder = Encoder.load(inputs["tokenizer"].path("tokenizer.json"))
    documents = HeldOut(inputs["tokens"], inputs["packed"], encoder).documents
    return [span for document in sample(documents, most) for span in document.spans]


def numbers_of_links(links: str) -> tuple[int, int]:
    """Reads ``GLOBAL.RANDOM``, the numbers of global tokens and of random keys.

    Raises:
        ConfigError: naming what is none.
    """
    first, _, draws = links.partition(".")
    if not (first.isdecimal() and draws.isdecimal()):
        raise ConfigError("--links", f"{links!r} is no two numbers", "give GLOBAL.RANDOM, such as 1.1")
    return int(first), int(draws)


def unit_of(name: str) -> tuple[int, int | None]:
    """Reads ``LAYER.UNIT`` or ``LAYER``.

    Raises:
        ConfigError: naming what is neither.
    """
    numbers = name.split(".")
    if len(numbers) > 2 or not all(number.isdecimal() for number in numbers):
        remedy = "give LAYER.UNIT or LAYER, with commas between"
        raise ConfigError("--units", f"{name!r} is no layer and unit", remedy)
    layer, *unit = map(int, numbers)
    return layer, unit[0] if unit else None


def row_drawing(overrides: Sequence[str], positions: int, run: str, links: str = "") -> str:
    """Returns the picture of the first row of ``run``, or of SENTENCES with the settings ``overrides``."""
    chosen = run_of(overrides, run) if run else None
    config = chosen.config if chosen else config_of(overrides)
    if config.finetune is not None and isinstance(config.finetune.task, Conversations):
        return conversation_drawing(config, config.finetune, config.finetune.task, chosen, positions)
    objective = config.row_objective
    pieces, tokenizer = words(objective) if chosen is None else first_row(chosen)
    length = min(positions, config.model.context)
    example = row_example(config.model, objective, pieces, length, tokenizer, config.training.seed)
    if links:
        example = with_links(example, config.model, *numbers_of_links(links))
    return svg(f"objective.type={config.objective.type}, model.stack={config.model.stack}", example)


def conversation_drawing(
    config: RunConfig, finetune: Finetune, task: Conversations, run: Run | None, positions: int
) -> str:
    """Returns the picture of the first row that ``finetune`` makes of its first conversation.

    Raises:
        ArtifactError: when its files hold no conversation.
        ConfigError: when the first one has no answer within ``finetune.context``.
    """
    examples, _ = task.read(finetune.train)
    encoder, folder = tokenizer_of(finetune, task, run, examples[0])
    model = Finetuned.model_of(finetune, config.model)
    dialogues = task.fitted(examples[:1], Form(encoder, model, finetune.context, folder))
    rows = dialogues.rows(examples[:1], True)
    of_row = dialogues.arrays(rows[:1])
    arrays = {name: of_row[name][0, :positions] for name in ("inputs", "targets", "positions", "documents")}
    example = as_read(model, dialogues, arrays, encoder.vocabulary_size, dialogues.tokenizer)
    return svg(f"finetune.task.type=conversations, row 1 of {len(rows)} of {examples[0].id}", example)


def tokenizer_of(
    finetune: Finetune, task: Conversations, run: Run | None, example: Example
) -> tuple[Encoder, Path | None]:
    """Returns the tokenizer of the model that learns, and its folder; without a model one of the words of ``example``,
    in no folder."""
    if finetune.folder is not None:
        return Encoder.load(Path(finetune.folder) / "tokenizer.json"), Path(finetune.folder)
    if run is not None:
        file = need("tokenizer", run.stages).path("tokenizer.json")
        return Encoder.load(file), file.parent
    template = ChatTemplate(task.template or DEFAULT_TEMPLATE, {"eos_token": END_OF_TEXT})
    texts = [answered.text for answered in template.answers(json.loads(example.texts[MESSAGES]))]
    spoken = itertools.chain(*(text.replace(END_OF_TEXT, " ").split() for text in texts))
    tokenizer = word_tokenizer([END_OF_TEXT, UNKNOWN], spoken)
    tokenizer.pre_tokenizer = WhitespaceSplit()  # type: ignore[assignment]  # of the library's stubs
    return Encoder(tokenizer), None


def attention(folder: Path, settings: Inference, text: str, answer: str, most_tokens: int) -> list[LayerAttention]:
    """Returns where the model in ``folder`` looks when it reads ``text``; see ``text_attention``.

    Raises:
        ArtifactError: when ``folder`` holds no whole model, or no tokenizer.
        ConfigError: when the text has more than ``most_tokens`` tokens, or does not fit the model.
    """
    layers = []
    for layer in text_attention(open_folder(folder, settings), text, answer):
        if (longest := max(len(layer.queries), len(layer.keys))) > most_tokens:
            problem = f"has {longest} tokens, and the picture shows {most_tokens}"
            raise ConfigError("--text", problem, f"give --tokens {longest}, or a shorter text")
        layers.append(layer)
    return layers


def memories(
    folder: Path,
    settings: Inference,
    asked: Sequence[tuple[int, int | None]],
    texts: Sequence[str | NDArray[np.unsignedinteger]],
) -> list[UnitMemory]:
    """Returns feed-forward units of the model in ``folder``, with the ``texts`` that excite them most; see
    ``unit_memories``. A text is a string, or tokens as the model reads them.

    Raises:
        ArtifactError: when ``folder`` holds no whole model, or no tokenizer.
        ConfigError: when the model has no such units.
    """

    model = open_folder(folder, settings)
    return list(unit_memories(model, asked, [read_text(model, text) for text in texts]))


def chosen_heads(layers: Sequence[LayerAttention], heads: str) -> set[HeadNumber]:
    """Reads ``LAYER.HEAD,…``.

    Raises:
        ConfigError: naming what is no head of ``layers``.
    """
    most = max(layer.layer for layer in layers), len(layers[0].weights_NTS) - 1
    chosen = set[HeadNumber]()
    for name in heads.split(",") if heads else ():
        layer, _, head = name.strip().partition(".")
        if not (layer.isdecimal() and head.isdecimal() and int(layer) <= most[0] and int(head) <= most[1]):
            remedy = f"give LAYER.HEAD, such as {most[0]}.{most[1]}, with commas between"
            raise ConfigError("--heads", f"{name!r} is none of layers 0 to {most[0]}, heads 0 to {most[1]}", remedy)
        chosen.add((int(layer), int(head)))
    return chosen


def words(objective: Objective) -> tuple[Pieces, Tokenizer]:
    """Returns SENTENCES as the pieces of a row, and a tokenizer of their words and of the special tokens."""
    documents = [[END_OF_TEXT, *sentence.split(), END_OF_TEXT] for sentence in SENTENCES]
    special = [END_OF_TEXT, *objective.special_tokens()]
    tokenizer = word_tokenizer(special, itertools.chain(*documents))
    ids = tokenizer.get_vocab()
    return [np.array([ids[word] for word in document]) for document in documents], tokenizer


def word_tokenizer(special: Sequence[str], words: Iterable[str]) -> Tokenizer:
    """Returns a tokenizer of ``special`` tokens and ``words``, with ids in this order."""
    ids = {word: number for number, word in enumerate(dict.fromkeys([*special, *words]))}
    tokenizer = Tokenizer(WordLevel(ids, UNKNOWN))
    tokenizer.add_special_tokens(list(special))
    return tokenizer


def first_row(run: Run) -> tuple[Pieces, Tokenizer]:
    """Returns the first row of the training of ``run`` as pieces, and the tokenizer."""
    inputs = {name: need(name, run.stages) for name in INPUTS}
    mix = Mix.of(run.config.mixture, run.config.packing.row_tokens)
    training = run.config.training
    rows, order = training_data(training.seed, inputs, mix, training.unique_rows)
    tokenizer = Tokenizer.from_file(str(inputs["tokenizer"].path("tokenizer.json")))
    return rows.pieces(int(order.batch(0, 1)[0])), tokenizer


if __name__ == "__main__":
    run_program(picture)
