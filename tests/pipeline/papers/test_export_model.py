"""``headrace export RUN[@STEP] --to FOLDER``: checkpoints and their averages as folders of ``transformers``."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.artifact_files import sync
from headrace.pipeline.core.errors import ArtifactError
from headrace.pipeline.papers import export_model, whole_folder
from headrace.pipeline.run.planner import save
from headrace.train.families.hf_folder import load
from headrace.train.inference.settings import Inference
from headrace.train.inference.transformers_model import open_folder
from tests.command_line import headrace_here
from tests.small_runs import Corpus, build, trained, training_of
from tests.stage_run import run_here


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Corpus:
    """A corpus with the run ``small``: 6 steps, and a checkpoint after every second."""
    corpus = build(tmp_path_factory.mktemp("exported"), "none")
    trained(training_of(corpus, "training.steps=6", "name=small"))
    return corpus


def export(corpus: Corpus, *arguments: object) -> str:
    result = headrace_here("export", *map(str, arguments), f"root={corpus.folder}/runs")
    assert result.returncode == 0, result.stderr
    return result.stdout


def small_weights(corpus: Corpus) -> Path:
    """The artifact ``weights`` of the run ``small``."""
    run = training_of(corpus, "training.steps=6", "name=small")
    return next(step.folder for step in run.stages if step.name == "weights")


def weights_in(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def exported(corpus: Corpus, folder: Path, *arguments: str) -> dict[str, torch.Tensor]:
    """The weights that ``headrace export`` writes to the new ``folder``."""
    export(corpus, *arguments, "--to", folder)
    return weights_in(folder)


def test_the_last_step_is_the_artifacts_own_model(corpus, tmp_path, monkeypatch):
    flushed: list[Path] = []
    monkeypatch.setattr(whole_folder, "sync", lambda path: (flushed.append(path), sync(path)))
    printed = export(corpus, "small", "--to", tmp_path / "model")
    *inside, folder, parent = flushed
    assert sorted(path.name for path in inside) == sorted(path.name for path in (tmp_path / "model").iterdir())
    assert {path.parent for path in inside} == {folder}, "before it gets its name"
    assert (folder.parent, parent) == (tmp_path, tmp_path)
    own = small_weights(corpus) / "hf"
    assert f"weights           {own.parent}, step 6\n" in printed
    for name in ("model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json"):
        assert (tmp_path / "model" / name).read_bytes() == (own / name).read_bytes()
    end = json.loads((tmp_path / "model/config.json").read_text())["eos_token_id"]
    assert json.loads((tmp_path / "model/generation_config.json").read_text())["eos_token_id"] == end
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "model").generation_config.eos_token_id == end
    card = (tmp_path / "model/README.md").read_text()
    assert card.startswith("---\nlibrary_name: transformers\ntags: [headrace]\n---\n\n# small\n")
    assert f"The weights of step 6 of the training `weights/{own.parent.name}`, made with Headrace." in card
    assert "| steps | 6 |\n| rows | 24 of 128 positions |" in card
    assert "| unique documents | " in card
    assert "| training loss | " in card
    assert len({path.stat().st_mode for path in (tmp_path / "model").iterdir()}) == 1, "who may read one, may read all"
    assert [path.name for path in tmp_path.iterdir()] == ["model"], "no temporary folder remains"


def test_an_average_is_the_mean_of_the_checkpoints(corpus, tmp_path):
    for steps in ("2", "4", "6", "6,2,4"):
        export(corpus, f"small@{steps}", "--to", tmp_path / steps)
    single = [weights_in(tmp_path / step) for step in ("2", "4", "6")]
    assert any(not torch.equal(value, single[2][name]) for name, value in single[0].items())
    for name, value in weights_in(tmp_path / "6,2,4").items():
        mean = torch.stack([one[name].double() for one in single]).mean(0).float()
        assert torch.allclose(value, mean, rtol=1e-7, atol=0)
    card = (tmp_path / "6,2,4/README.md").read_text()
    assert "the average of the steps 2, 4, 6" in card
    assert "loss" not in card, "nobody measured that of the average"


def test_a_moving_average_is_another_model(corpus, tmp_path):
    settings = ("training.steps=4", "training.save_every=1", "optimizer.ema_decay=0.75")
    trained(training_of(corpus, *settings, "name=averaging"))
    assert ", the moving average at step 4\n" in export(corpus, "averaging", "--ema", "--to", tmp_path / "model")
    before = exported(corpus, tmp_path / "before", "averaging@1", "--ema")
    after = exported(corpus, tmp_path / "after", "averaging@2", "--ema")
    weights = exported(corpus, tmp_path / "weights", "averaging@2")
    for name, value in after.items():
        assert torch.allclose(value, 0.75 * before[name] + 0.25 * weights[name], rtol=1e-6, atol=1e-8)
    card = (tmp_path / "model/README.md").read_text()
    assert "The weights of step 4 (a moving average, decay 0.75) of the training" in card
    assert "loss" not in card, "nobody measured that of the average"


def test_a_branch_may_begin_to_average(corpus, tmp_path):
    settings = ("training.branch_from=small@4", "training.steps=6", "optimizer.ema_decay=0.75")
    trained(training_of(corpus, *settings, "name=later"))
    first = exported(corpus, tmp_path / "first", "later@4", "--ema")
    trunk = exported(corpus, tmp_path / "trunk", "small@4")
    last = exported(corpus, tmp_path / "last", "later@6", "--ema")
    assert all(torch.equal(value, trunk[name]) for name, value in first.items())
    assert any(not torch.equal(value, last[name]) for name, value in first.items())


def test_without_an_average_there_is_none_to_write(corpus, tmp_path):
    result = headrace_here("export", "small", "--ema", "--to", str(tmp_path / "model"), f"root={corpus.folder}/runs")
    wrong = "headrace: --ema: 'small' kept no moving average; train with optimizer.ema_decay=0.999, say\n"
    assert (result.returncode, result.stderr) == (2, wrong)
    result = headrace_here("export", "clean", "--ema", f"root={corpus.folder}/runs")
    assert (
        result.stderr == "headrace: --ema: is not for an export to FILE; write headrace export RUN[@STEP] --to FOLDER\n"
    )


def test_large_weights_are_split_with_an_index(corpus, tmp_path, monkeypatch):
    export(corpus, "small", "--to", tmp_path / "whole")
    monkeypatch.setattr(export_model, "FILE_BYTES", 12_000)
    export(corpus, "small", "--to", tmp_path / "split")
    files = sorted(path.name for path in (tmp_path / "split").glob("*.safetensors"))
    assert len(files) > 1
    assert files[0] == f"model-00001-of-{len(files):05d}.safetensors"
    index = json.loads((tmp_path / "split/model.safetensors.index.json").read_text())
    assert sorted(set(index["weight_map"].values())) == files
    whole = AutoModelForCausalLM.from_pretrained(tmp_path / "whole").state_dict()
    split = AutoModelForCausalLM.from_pretrained(tmp_path / "split").state_dict()
    assert whole.keys() == split.keys()
    assert all(torch.equal(whole[name], split[name]) for name in whole)
    ours = load(tmp_path / "split").state_dict()
    assert all(torch.equal(value, ours[name]) for name, value in load(tmp_path / "whole").state_dict().items())


REFUSED = {
    "small@3": "RUN: 'small' has no checkpoint of step 3; give some of these: 2, 4, 6",
    "small@": f"RUN: 'small@' names no steps; {export_model.STEPS}",
    "small@2,other@4": f"RUN: 'small@2,other@4' names no steps; {export_model.STEPS}",
}


@pytest.mark.parametrize("asked", REFUSED)
def test_steps_without_a_checkpoint_are_refused(corpus, tmp_path, asked):
    result = headrace_here("export", asked, "--to", str(tmp_path / "model"), f"root={corpus.folder}/runs")
    assert (result.returncode, result.stderr) == (2, f"headrace: {REFUSED[asked]}\n")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_exists_is_not_replaced(corpus, tmp_path):
    result = headrace_here("export", "small", "--to", str(tmp_path), f"root={corpus.folder}/runs")
    wrong = f"headrace: --to: '{tmp_path}' exists; give the name of a new folder\n"
    assert (result.returncode, result.stderr) == (2, wrong)
    result = headrace_here("export", "small", "--to", str(tmp_path / "a/b"), f"root={corpus.folder}/runs")
    wrong = f"headrace: --to: there is no folder '{tmp_path / 'a'}'; make it first\n"
    assert (result.returncode, result.stderr) == (2, wrong)


def test_a_folder_that_cannot_be_made_is_refused(corpus):
    result = headrace_here("export", "small", "--to", "/proc/model", f"root={corpus.folder}/runs")
    assert result.returncode == 2
    assert result.stderr.startswith("headrace: --to: '/proc/model' cannot be made (")
    assert result.stderr.endswith("); give a folder of your own\n")


def test_a_damaged_checkpoint_leaves_nothing(corpus, tmp_path):
    file = small_weights(corpus) / "checkpoints/step_00000004/state/00000.safetensors"
    before = file.read_bytes()
    save_file({"x": torch.zeros(1)}, file)
    try:
        result = headrace_here("export", "small@4", "--to", str(tmp_path / "model"), f"root={corpus.folder}/runs")
    finally:
        file.write_bytes(before)
    assert result.returncode == 1
    assert "is damaged or missing" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_run_without_a_file_or_a_folder_is_refused(corpus):
    result = headrace_here("export", "clean", f"root={corpus.folder}/runs")
    wrong = "headrace: FILE: is missing; give a file for documents, or --to FOLDER for the model of a run\n"
    assert (result.returncode, result.stderr) == (2, wrong)


def test_of_a_run_with_a_fine_tuning_its_model_is_written(corpus: Corpus, tmp_path: Path) -> None:
    """It is no language model: what scores texts refuses it. A step names the weights before."""
    for split, place in (("train", "mill"), ("validation", "bridge")):
        lines = "".join(f"The old {place} is {label}.,{label}\n" for label in ("good", "bad"))
        (tmp_path / f"{split}.csv").write_text(f"text,label\n{lines}")
    task = "finetune.task={type: classification, format: {type: fields, texts: [text], label: label}}"
    files = [f"finetune.{split}={tmp_path}/{split}.csv" for split in ("train", "validation")]
    sizes = ("finetune.epochs=1", "finetune.batch_rows=2", "finetune.context=32")
    run = training_of(corpus, "training.steps=6", "name=tuned", "until=finetuned", "finetune=own", task, *files, *sizes)
    (stage,) = (stage for stage in run.stages if stage.name == "finetuned")
    save(run.config, run.values, run.stages, run.overrides)
    refused = headrace_here("export", "tuned", "--to", str(tmp_path / "early"), f"root={corpus.folder}/runs")
    assert refused.stderr.startswith("headrace: RUN: the fine-tuning of 'tuned' is not finished; run it to its end; ")
    run_here(stage.stage, {name: Artifact(folder) for name, folder in stage.inputs.items()}, stage.folder)

    printed = export(corpus, "tuned", "--to", tmp_path / "model")
    assert f"model             {stage.folder}, fine-tuned, seed 1\n" in printed
    assert {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()} == {
        path.name: path.read_bytes() for path in (stage.folder / "hf").iterdir()
    }
    with pytest.raises(ArtifactError, match=r"holds a model with a head for a task \(\w+\), not a language model"):
        open_folder(tmp_path / "model", Inference())
    before = exported(corpus, tmp_path / "before", "tuned@6")
    assert all(torch.equal(value, before[name]) for name, value in weights_in(small_weights(corpus) / "hf").items())
