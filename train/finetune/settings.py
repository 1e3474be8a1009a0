"""The settings of a fine-tuning. Free of torch.

The defaults are BERT's recipe (Devlin et al. 2019, appendix A.3): 3 epochs, batches of 32, rate 2e-5 with a warm-up of
a tenth of the steps and a straight line down to 0, decay 0.01, dropout 0.1, at most 128 tokens.
"""

import math
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from headrace.data_prep.tokenization.given_tokenizer import marks_bytes
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import (
    FilePath,
    FilePaths,
    Fraction,
    Positive,
    PositiveNumber,
    Seed,
    SomePaths,
    by_content,
    settings,
)
from headrace.train.config import BelowOne
from headrace.train.engine.optimizers import AnyOptimizer
from headrace.train.engine.optimizers.adamw import AdamW
from headrace.train.finetune.tasks import AnyTask
from headrace.train.loop.schedule import Linear, Schedule

BERT_ADAM = AdamW(learning_rate=2e-5, weight_decay=0.01, beta2=0.999, epsilon=1e-6)
"""The optimizer of google-research/bert, with Adam's correction of the moments' beginnings."""


@settings
class Finetune:
    """A task, its files, and the recipe of its training."""

    task: AnyTask
    """The kind of task: its type, the format of its files, and its metrics."""
    train: SomePaths
    """Files of the examples that are trained on."""
    validation: SomePaths
    """Files of the examples by which checkpoints are chosen, and which give the scores."""
    test: FilePaths = ()
    """Files of further examples to predict; their results are not read."""
    folder: FilePath | None = by_content(None)
    """Folder of a Hugging Face model, of a family in train/families, to fine-tune; null: the model of the run. The
    result depends on its content, not on its path."""
    from_scratch: bool = False
    """Begins with random weights: what the task alone teaches the same architecture."""
    seeds: Annotated[tuple[Seed, ...], Field(min_length=1)] = (1,)
    """Seeds of a head's first weights, the order of examples and dropout; one training each, one after the other."""
    epochs: PositiveNumber = 3.0
    """Passes over the training examples."""
    steps: Positive | None = None
    """Updates, instead of ``epochs``."""
    limit: Positive | None = None
    """At most this many training examples, drawn at random: the same ones for each seed; null: all."""
    batch_rows: Positive = 32
    """Examples of one update, summed over all ranks."""
    context: Positive = 128
    """The most tokens of a sequence, special ones included; longer texts are cut, and counted."""
    dropout: BelowOne = 0.1
    """Dropout of the model and of the head, instead of ``model.dropout``."""
    optimizer: AnyOptimizer = BERT_ADAM
    """The optimizer of all weights."""
    schedule: Schedule = Linear(warmup_steps=0)
    """The learning rate over the steps."""
    warmup_fraction: Fraction | None = 0.1
    """Share of the steps that are ``schedule.warmup_steps``, rounded; null: those that the schedule has."""
    freeze: Literal["none", "embeddings", "all"] | Positive = "none"
    """The weights that stay as they are: none, the embeddings, these and so many of the lowest layers, or all but the
    head, which then reads fixed features."""
    layer_decay: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Each layer's learning rate divided by that of the layer above it: 0.8 in ELECTRA (0.9 large). 1: equal rates."""
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    """Precision of the model's arithmetic, as of ``training.precision``."""
    gradient_clip: PositiveNumber | None = 1.0
    """The maximum norm of the gradient; null: no clipping."""
    evaluate_every: Positive | None = None
    """Steps between two evaluations on the validation examples, each with a checkpoint; null: one each epoch. There is
    always one after the last step. The best checkpoint by the task's first metric is the result."""
    patience: Positive | None = None
    """Ends a training after so many evaluations without a better one; null: never."""
    average_last: Positive | None = None
    """The result is the mean of the weights of the last so many checkpoints: 5 in Vaswani et al. 2017, section 6.1;
    null: the best checkpoint."""

    def __post_init__(self) -> None:
        if len(set(self.seeds)) < len(self.seeds):
            raise ConfigError("finetune.seeds", f"{list(self.seeds)} has a seed twice", "give each seed once")
        if self.folder is not None and self.from_scratch:
            problem = f"is true, and finetune.folder is {self.folder}"
            raise ConfigError(
                "finetune.from_scratch", problem, "give one of them: no weight of the folder would be read"
            )

    @property
    def revision(self) -> int:
        """The sum of 1 where values are dropped, which depended on micro-batches and ranks before, and of 2 where the
        folder's tokenizer marks tokens of one byte as special, which are text since."""
        marks = self.folder is not None and marks_bytes(Path(self.folder, "tokenizer.json"))
        return int(self.dropout > 0) + 2 * marks

    def steps_of(self, rows: int) -> int:
        """Returns the number of updates for so many training rows."""
        return self.steps or max(1, math.ceil(self.epochs * rows / self.batch_rows))

    def evaluate_every_of(self, rows: int) -> int:
        """Returns the steps between two evaluations for so many training rows."""
        return self.evaluate_every or max(1, math.ceil(rows / self.batch_rows))
