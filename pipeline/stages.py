"""The stages of a run, in their order, each named after the artifact that it writes. A run may end after any of them.

raw pages -> texts (-> classifier) -> clean -> signatures -> duplicates (-> repeats) -> unique
  (-> column.NAME, … -> selected) -> overlaps -> tokenizer -> tokens -> packed -> weights (-> finetuned) -> scores
"""

from headrace.data_prep.clean import Clean
from headrace.data_prep.duplicates import Duplicates
from headrace.data_prep.overlaps import Overlaps
from headrace.data_prep.packed import Packed
from headrace.data_prep.selected import Selected
from headrace.data_prep.signatures import Signatures
from headrace.data_prep.texts import Texts
from headrace.data_prep.tokenizer import Tokenizer
from headrace.data_prep.tokens import Tokens
from headrace.data_prep.unique import Unique
from headrace.pipeline.config import RunConfig
from headrace.pipeline.core.stage import Stage
from headrace.train.data.mixture import Mix
from headrace.train.finetuned import Finetuned
from headrace.train.scores import Scores
from headrace.train.weights import Weights


def stages(config: RunConfig) -> tuple[Stage, ...]:
    """Returns all stages of a run with ``config`` but its report."""
    evaluation = config.evaluation.expanded()
    evaluation.check_window(config.model.context)
    evaluation.check_stack(config.model.stack, config.model.mixer == "attention")
    evaluation.chat.check_run(config.training.initial_weights, config.training.evaluate_every is not None)
    benchmarks = evaluation.texts()
    line: tuple[Stage, ...] = (
        Texts(source=config.source),
        *Clean.with_classifier(config.classifier, config.cleaning, config.dedup.memory_bytes),
        Signatures.of(config.dedup),
        Duplicates.of(config.dedup),
        Unique.of(config.decontamination, benchmarks, **config.dedup.of_unique),
        *Selected.with_columns(config.columns, config.selection),
        Overlaps.of(config.decontamination, benchmarks),
        Tokenizer(settings=config.tokenizer, special_tokens=config.objective.special_tokens()),
        Tokens(),
        Packed(packing=config.text_packing, frame_tokens=config.objective.frame_tokens, selects=config.selects),
        Weights(
            model=config.trained_model,
            objective=config.objective,
            optimizer=config.optimizer,
            schedule=config.schedule,
            training=config.training,
            distillation=config.distillation,
            mixture=Mix.of(config.mixture, config.text_packing.row_tokens, config.objective.frame_tokens),
            zero=config.zero,
            tracking=config.tracking.of_training(config.name, Weights.name),
            evaluation=evaluation.light(config.training.evaluate, config.training.evaluate_items),
        ),
        Scores(evaluation=evaluation),
    )
    tracking = config.tracking.of_training(config.name, Finetuned.name)
    line, model, training = Unique.joined(line, config.dedup), config.trained_model, config.training
    return Finetuned.joined(line, config.finetune, model, training, zero=config.zero, tracking=tracking)
