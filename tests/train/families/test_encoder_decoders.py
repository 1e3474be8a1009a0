"""T5 and BART equal their classes of ``transformers``: logits of padded and packed rows, training, saved folders."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from headrace.data_prep.tokenization.encode import Encoder
from headrace.data_prep.tokenization.made_tokenizers import Trained
from headrace.data_prep.tokenization.special_tokens import sentinels
from headrace.pipeline.core.errors import ArtifactError
from headrace.train.config import ModelConfig
from headrace.train.data.batches import EncoderTokens
from headrace.train.families.family import WeightNames
from headrace.train.families.hf_folder import export, load
from headrace.train.families.registry import OWN, family_of
from headrace.train.families.umt5 import Umt5
from headrace.train.inference.generator import generator_of
from headrace.train.inference.queries import TokenQuery
from headrace.train.inference.settings import Inference, Sampling
from headrace.train.inference.transformers_model import open_folder
from headrace.train.model.initialization import initialize
from headrace.train.model.transformer import Transformer
from tests.command_line import headrace_here
from tests.train.families.test_families import preset_config
from tests.train.model.test_transformer import VOCABULARY, random_model

T5 = ModelConfig(
    layers=2, encoder_layers=3, width=32, heads=4, kv_heads=4, context=160, mlp_width=48, attention_width=64,
    attention_scale_width=1, positions="t5", norm="rmsnorm", norm_epsilon=1e-6, activation="relu", bias=False,
    stack="encoder_decoder", scaled_output=True, initialization="t5",
)  # fmt: skip
BART = ModelConfig(
    layers=2, encoder_layers=3, width=32, heads=4, kv_heads=4, context=160, mlp_width=48, norm_place="post",
    activation="gelu_exact", position_offset=2, embedding_norm=True, stack="encoder_decoder",
)  # fmt: skip
SHAPES = {
    "v1.0": T5,
    "v1.1": dataclasses.replace(T5, encoder_layers=None, activation="geglu", tied=False, scaled_output=False),
    "umt5": dataclasses.replace(T5, positions="t5_by_layer", activation="geglu", tied=False, scaled_output=False),
    "bart": BART,
}
GENERATOR = torch.Generator().manual_seed(1)
SOURCE = torch.randint(2, VOCABULARY, (2, 150), generator=GENERATOR)
TOKENS = torch.randint(2, VOCABULARY, (2, 140), generator=GENERATOR)
"""Long enough for every bucket of distances."""
TARGETS = torch.randint(2, VOCABULARY, (2, 140), generator=GENERATOR)


@pytest.fixture(scope="module", params=SHAPES.values(), ids=SHAPES)
def pair(request, tmp_path_factory):
    """A random model of ours, and the one that transformers opens in its exported folder."""
    folder = tmp_path_factory.mktemp("t5")
    tokenizer_file = folder / "tokenizer.json"
    special_tokens, start = ("t5", 0) if request.param.positions.startswith("t5") else ("roberta", 2)
    trained = Trained(vocabulary_size=400, special_tokens=special_tokens).train(["a mill"])
    tokenizer_file.write_text(trained, encoding="utf-8")
    ours = random_model(request.param)
    export(ours.named_parameters(), request.param, VOCABULARY, tokenizer_file, folder / "hf")
    theirs, info = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder / "hf", output_loading_info=True)
    assert not any(info[what] for what in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"))
    assert theirs.config.decoder_start_token_id == start
    return ours, theirs.eval()


def documents_of(lengths: list[list[int]], positions: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The documents of rows that have these lengths, and the positions in them; -1 and 0 in the padding after them."""
    documents = torch.full((len(lengths), positions), -1)
    places = torch.zeros_like(documents)
    for row, of_row in enumerate(lengths):
        begin = 0
        for number, length in enumerate(of_row):
            documents[row, begin : begin + length] = number
            places[row, begin : begin + length] = torch.arange(length)
            begin += length
    return documents, places


def logits(model: Transformer, source_lengths, lengths, targets_BT=None) -> torch.Tensor:
    source_documents, source_positions = documents_of(source_lengths, SOURCE.shape[1])
    documents, positions = documents_of(lengths, TOKENS.shape[1])
    source = EncoderTokens(SOURCE, source_positions, source_documents)
    return model(TOKENS, positions, documents, targets_BT, source=source)


def losses(ours: Transformer, theirs: transformers.PreTrainedModel, tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The mean loss of the first ``tokens`` targets of each row, here and there."""
    read, inputs, targets = SOURCE[:, : tokens + 10], TOKENS[:, :tokens], TARGETS[:, :tokens].contiguous()
    (documents, positions), (source_documents, source_positions) = (
        documents_of([[one.shape[1]]] * 2, one.shape[1]) for one in (inputs, read)
    )
    source = EncoderTokens(read, source_positions, source_documents)
    nll = ours(inputs, positions, documents, targets, source=source)
    return nll / targets.numel(), theirs(input_ids=read, decoder_input_ids=inputs, labels=targets).loss


@torch.inference_mode()
def test_padded_rows_have_the_logits_of_transformers(pair):
    ours, theirs = pair
    mask = torch.arange(150)[None] < torch.tensor([[150], [90]])
    expected = theirs(input_ids=SOURCE, attention_mask=mask.long(), decoder_input_ids=TOKENS).logits
    found = logits(ours, [[150], [90]], [[140], [120]])
    torch.testing.assert_close(found[0], expected[0], rtol=0, atol=1e-4)
    torch.testing.assert_close(found[1, :120], expected[1, :120], rtol=0, atol=1e-4)


@torch.inference_mode()
def test_packed_rows_have_the_logits_of_each_document_alone(pair):
    ours, theirs = pair
    found = logits(ours, [[20, 130], [150]], [[100, 30], [140]])
    for source, target in ((slice(0, 20), slice(0, 100)), (slice(20, 150), slice(100, 130))):
        expected = theirs(input_ids=SOURCE[:1, source], decoder_input_ids=TOKENS[:1, target]).logits
        torch.testing.assert_close(found[:1, target], expected, rtol=0, atol=1e-4)
    assert found.isfinite().all()


def learn_alike(ours: Transformer, theirs: transformers.PreTrainedModel, names: WeightNames) -> None:
    """Compares losses and gradients of 20 steps of plain gradient descent, the first one on whole rows."""
    for step in range(20):
        loss, expected = losses(ours, theirs, 12 if step else 140)
        torch.testing.assert_close(loss, expected, rtol=0, atol=1e-4)
        for model, value in ((ours, loss), (theirs, expected)):
            model.zero_grad()
            value.backward()
        for name, parameter in ours.named_parameters():
            parts = [theirs.get_parameter(hf_name).grad for hf_name in names.of(name)]
            torch.testing.assert_close(parameter.grad, torch.cat(parts), rtol=0, atol=1e-4)
        with torch.no_grad():
            for parameter in (*ours.parameters(), *theirs.parameters()):
                parameter -= 0.05 * parameter.grad if parameter.grad is not None else 0


def test_a_short_training_is_that_of_transformers(pair):
    """The shared embedding gets the gradients of both stacks."""
    config = pair[0].config
    ours, theirs = random_model(config).train(), type(pair[1])(pair[1].config)
    if not config.tied:
        theirs.lm_head.weight = torch.nn.Parameter(pair[1].lm_head.weight.clone())
    theirs.load_state_dict(pair[1].state_dict())
    theirs.eval()  # without its dropout
    learn_alike(ours, theirs, family_of(config).names(config))


@torch.inference_mode()
def test_saved_folders_load_both_ways(pair, tmp_path):
    ours, theirs = pair
    theirs.save_pretrained(tmp_path)
    loaded = load(tmp_path)
    assert loaded.config == ours.config
    lengths = [[150], [150]], [[140], [140]]
    assert torch.equal(logits(loaded, *lengths), logits(ours, *lengths))


@torch.inference_mode()
def test_generation_with_the_cache_equals_whole_rows(pair):
    """Two sources of different lengths, read once; the decoder's tokens come in three parts, and rows are exchanged.

    Also with normalized queries and keys, which no class of ``transformers`` with two stacks has.
    """
    normed = random_model(dataclasses.replace(pair[0].config, qk_norm="width"))
    for ours in (pair[0], normed):
        cache, sizes = ours.new_cache(2), torch.tensor([150, 90])
        ours.read_contexts(cache, torch.cat([SOURCE[0], SOURCE[1, :90]]), sizes)
        cache = cache.of_rows(torch.tensor([1, 0]), 20)
        found, parts = [], [(0, 3), (3, 4), (4, 20)]
        for begin, end in parts:
            new = torch.cat([TOKENS[1, begin:end], TOKENS[0, begin:end]])
            x = ours.extend(cache, new, torch.tensor([end - begin] * 2))
            found.append(ours.logits(x).view(2, end - begin, -1))
        expected = logits(ours, [[150], [90]], [[20], [20]])[:, :20]
        torch.testing.assert_close(torch.cat(found, 1).flip(0), expected, rtol=0, atol=1e-4)


@dataclasses.dataclass(frozen=True)
class Folder:
    """A random T5 with sentinels, in a folder without our own fields, which is read in T5's form."""

    path: Path
    encoder: Encoder
    model: Transformer

    def id_of(self, token: str) -> int:
        return self.encoder.backend.get_vocab(with_added_tokens=True)[token]

    @torch.inference_mode()
    def logits_after(self, context: list[int], written: list[int]) -> torch.Tensor:
        """Logits after each token of the decoder, the first of which predicts the continuation; whole rows."""
        start, first = self.id_of("<pad>"), self.id_of("<extra_id_0>")
        read = torch.tensor([[*context, first, self.encoder.end_of_text]])
        tokens = torch.tensor([[start, first, *written]])
        positions, places = torch.arange(tokens.shape[1])[None], torch.arange(read.shape[1])[None]
        source = EncoderTokens(read, places, torch.zeros_like(read))
        return self.model(tokens, positions, torch.zeros_like(tokens), source=source)[0, 1:]

    def log_likelihood(self, context: list[int], continuation: list[int]) -> float:
        log_probs = self.logits_after(context, continuation[:-1]).log_softmax(1)
        return log_probs[torch.arange(len(continuation)), torch.tensor(continuation)].sum().item()


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Folder:
    path = tmp_path_factory.mktemp("sentinels")
    tokenizer_file = path / "tokenizer.json"
    trained = Trained(vocabulary_size=400, special_tokens="t5").train(["a mill by the river"], sentinels(100))
    tokenizer_file.write_text(trained, encoding="utf-8")
    encoder = Encoder.load(tokenizer_file)
    torch.manual_seed(1)
    model = Transformer(T5, encoder.vocabulary_size).eval()
    export(model.named_parameters(), T5, encoder.vocabulary_size, tokenizer_file, path / "hf")
    return Folder(path / "hf", encoder, model)


def test_a_folder_is_scored_and_continued_after_a_sentinel(folder):
    assert load(folder.path).context_form.given == (folder.id_of("<pad>"), folder.id_of("<extra_id_0>"))
    context, *rests = (one.tolist() for one in folder.encoder.encode(["a mill by", " the river", " a mill by"]))
    likelihood = open_folder(folder.path, Inference(device="cpu")).likelihood
    answers = likelihood.answers([TokenQuery(np.array(context), np.array(rest)) for rest in rests])
    for rest, answer in zip(rests, answers, strict=True):
        assert answer.log_likelihood == pytest.approx(folder.log_likelihood(context, rest), abs=1e-4)
    asked = ("--model", str(folder.path), "--prompt", "a mill by", "--max-tokens", "6")
    done = headrace_here("generate", *asked, "evaluation.device=cpu")
    assert done.returncode == 0, done.stderr
    written: list[int] = []
    ends = {folder.encoder.end_of_text, folder.id_of("<extra_id_1>")}
    while len(written) < 6 and not ends & set(written):
        written.append(int(folder.logits_after(context, written)[-1].argmax()))
    kept = [one for one in written if one not in ends]
    assert done.stdout == folder.encoder.decode(kept, skip_special_tokens=True) + "\n"


def test_a_context_and_its_continuation_fill_a_window_each(folder):
    """The encoder has 160 positions, two of which the form takes; the decoder has as many."""
    ids = np.random.default_rng(1).integers(3, 300, 340)
    likelihood = open_folder(folder.path, Inference(device="cpu")).likelihood
    query = TokenQuery(ids[:200], ids[200:])
    (answer,) = likelihood.answers([query])
    expected = folder.log_likelihood(ids[200 - 158 : 200].tolist(), ids[200:].tolist())
    assert answer.log_likelihood == pytest.approx(expected, abs=1e-2, rel=1e-5)
    tally = likelihood.tally([query])
    assert (tally.truncated_contexts, tally.truncated_tokens, tally.split_continuations) == (1, 42, 0)


def test_beam_search_finds_what_that_of_transformers_does(folder):
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder.path).eval()
    prompts = ["a mill by", "the river", "by the mill"]
    model = open_folder(folder.path, Inference(device="cpu"))
    found = generator_of(model).generate(prompts, Sampling(max_tokens=8, beams=3))
    start, first, second = (folder.id_of(token) for token in ("<pad>", "<extra_id_0>", "<extra_id_1>"))
    for prompt, one in zip(prompts, found, strict=True):
        ids = [*folder.encoder.encode([prompt])[0].tolist(), first, folder.encoder.end_of_text]
        expected = theirs.generate(
            torch.tensor([ids]), decoder_input_ids=torch.tensor([[start, first]]), max_new_tokens=8, do_sample=False,
            num_beams=3, length_penalty=0.0, early_stopping="never", eos_token_id=[folder.encoder.end_of_text, second],
        )  # fmt: skip
        assert list(one.tokens) == expected[0, 2:].tolist(), prompt


@torch.inference_mode()
def test_a_folder_of_bart_is_scored_and_continued_after_the_context_again(tmp_path):
    """A folder without our own fields is read in BART's form; the reference computes whole rows."""
    tokenizer_file = tmp_path / "tokenizer.json"
    tokenizer_file.write_text(Trained(vocabulary_size=300, special_tokens="roberta").train(["a mill by the river"]))
    encoder = Encoder.load(tokenizer_file)
    begin, end, mask = (encoder.backend.token_to_id(token) for token in ("<s>", "</s>", "<mask>"))
    torch.manual_seed(1)
    model = Transformer(BART, encoder.vocabulary_size).eval()
    export(model.named_parameters(), BART, encoder.vocabulary_size, tokenizer_file, tmp_path / "hf")
    opened = open_folder(tmp_path / "hf", Inference(device="cpu"))

    def logits_after(context: list[int], written: list[int]) -> torch.Tensor:
        read = torch.tensor([[begin, *context, mask, end]])
        tokens = torch.tensor([[end, begin, *context, *written]])
        positions, places = torch.arange(tokens.shape[1])[None], torch.arange(read.shape[1])[None]
        source = EncoderTokens(read, places, torch.zeros_like(read))
        return model(tokens, positions, torch.zeros_like(tokens), source=source)[0, 1 + len(context) :]

    context, *rests = (one.tolist() for one in encoder.encode(["a mill by", " the river", " a mill by"]))
    contexts = (context, context, context[:1], context * 30)
    queries = [TokenQuery(np.array(one), np.array(rest)) for one in contexts for rest in rests]
    for query, answer in zip(queries, opened.likelihood.answers(queries), strict=True):
        rest = query.continuation.tolist()
        log_probs = logits_after(query.context.tolist()[-(158 - len(rest)) :], rest[:-1]).log_softmax(1)
        expected = log_probs[torch.arange(len(rest)), torch.tensor(rest)].sum().item()
        assert answer.log_likelihood == pytest.approx(expected, abs=1e-4)
    (found,) = generator_of(opened).generate(["a mill by"], Sampling(max_tokens=6))
    written: list[int] = []
    while len(written) < 6 and end not in written:
        written.append(int(logits_after(context, written)[-1].argmax()))
    assert list(found.tokens) == written


def test_a_bart_with_a_bias_of_its_logits_is_refused(tmp_path):
    tokenizer_file = tmp_path / "tokenizer.json"
    tokenizer_file.write_text(Trained(vocabulary_size=300).train(["a mill"]), encoding="utf-8")
    export(random_model(BART).named_parameters(), BART, VOCABULARY, tokenizer_file, tmp_path / "hf")
    tensors = load_file(tmp_path / "hf/model.safetensors")
    save_file({**tensors, "final_logits_bias": torch.ones(1, VOCABULARY)}, tmp_path / "hf/model.safetensors")
    with pytest.raises(ArtifactError) as error:
        load(tmp_path / "hf")
    assert str(error.value) == f"{tmp_path}/hf: has values other than 0 in 'final_logits_bias'; only 0 is computed"


def test_a_mixture_of_two_stacks_has_our_format_and_its_number_of_parameters():
    mixture = dataclasses.replace(BART, norm_place="pre", qk_norm="width")
    model = random_model(mixture)
    assert sum(parameter.numel() for parameter in model.parameters()) == mixture.parameters(VOCABULARY)
    assert family_of(mixture) is OWN
    alone, packed = (logits(model, [[length], [150]], [[100], [140]]) for length in (20, 150))
    assert not torch.equal(alone[0, :100], packed[0, :100])
    torch.testing.assert_close(alone[1], packed[1])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tie_word_embeddings": True}, "umt5: has tie_word_embeddings=True in config.json; only False is computed"),
        (
            {"scale_decoder_outputs": True},
            "umt5: has scale_decoder_outputs=True in config.json; only False is computed",
        ),
        (
            {"feed_forward_proj": "relu"},
            "umt5: has feed_forward_proj='relu' in config.json; only 'gated-gelu' is computed",
        ),
    ],
)
def test_a_umt5_with_a_scaled_output_or_another_activation_is_refused(changes, message):
    """The published config.json of umt5-base, which leaves the activation out, is read."""
    sizes = {"d_model": 768, "d_kv": 64, "d_ff": 2048, "num_layers": 12, "num_heads": 12, "num_decoder_layers": 12}
    published = {"model_type": "umt5", "is_encoder_decoder": True, "tie_word_embeddings": False, **sizes}
    config = Umt5().from_hf_config(Umt5.defaults | published, Path("umt5"))
    assert family_of(config).model_type == "umt5"
    assert config == dataclasses.replace(preset_config("umt5_base"), dropout_places=())
    with pytest.raises(ArtifactError) as error:
        Umt5().from_hf_config(Umt5.defaults | published | changes, Path("umt5"))
    assert str(error.value) == message


@pytest.mark.parametrize("table", ["positions.table", "positions.layers.2.table"])
def test_t5s_first_weights_have_its_deviations(table):
    model = Transformer(SHAPES["umt5"] if "layers" in table else T5, 1000)
    initialize(model, 0)
    weights = dict(model.named_parameters())
    expected = {
        "embedding.weight": 1.0,
        f"encoder.{table}.weight": 32**-0.5,
        "blocks.0.cross.query.weight": (32 * 16) ** -0.5,
        "blocks.0.cross.key_value.weight": 32**-0.5,
        "encoder.blocks.2.attention.output.weight": 64**-0.5,
        "blocks.1.mlp.down.weight": 48**-0.5,
    }
    assert {name: weights[name].std().item() for name in expected} == pytest.approx(expected, rel=0.1)
