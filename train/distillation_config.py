"""The settings of distillation: a student learns from a teacher in addition to its objective (conf/distillation/).

    soft targets    its distributions over tokens            Hinton et al. 2015
    cosine          the direction of its last hidden states  DistilBERT, Sanh et al. 2019
    hidden          the values of its hidden states          TinyBERT, Jiao et al. 2020, eq. 8 and 9
    attention       its attention before the softmax         TinyBERT, eq. 7

This module imports no torch.
"""

from collections.abc import Mapping

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import (
    FilePath,
    Natural,
    NaturalNumber,
    Positive,
    PositiveNumber,
    by_content,
    settings,
)
from headrace.train.config import ModelConfig

TEACHER = "distillation.teacher"


@settings
class Distillation:
    """The teacher of a training, and the weights of what is learned from it. The gradient is that of hard_weight ·
    -ln q(token) + soft_weight · temperature² · KL(p ‖ q), with the distributions p and q of teacher and student at the
    temperature (Hinton et al. 2015), and of the terms of the layers."""

    teacher: FilePath | None = by_content(None)
    """Folder of a Hugging Face model, or a run: its weights. The result depends on its content, not on its path; null:
    no teacher."""
    temperature: PositiveNumber = 2.0
    """The divisor of the logits of both: above 1, unlikely tokens count more."""
    soft_weight: NaturalNumber = 5.0
    """Weight of the teacher's distributions."""
    hard_weight: NaturalNumber = 2.0
    """Weight of the tokens of the text; 0: the teacher alone."""
    cosine_weight: NaturalNumber = 0.0
    """Weight of 1 - cos of the last hidden states of both, at all positions of text (DistilBERT); 0: none."""
    hidden_weight: NaturalNumber = 0.0
    """Weight of the mean squared error of the embedded tokens and of the hidden states of each pair of layers, after a
    learned linear map from the student's width where widths differ (TinyBERT); 0: none."""
    attention_weight: NaturalNumber = 0.0
    """Weight of the mean squared error of the logits of attention of each pair of layers (TinyBERT); 0: none."""
    teacher_layers: tuple[Natural, ...] = ()
    """The layer of the teacher, counted from 1, that each layer of the student learns hidden states and attention from;
    0: none. Empty: layer m of M learns from layer m · N / M of N."""
    initial_layers: tuple[Positive, ...] = ()
    """The layer of the teacher, counted from 1, whose weights each layer of the student begins with; all other weights
    are the teacher's, too. Empty: random weights, or those of training.initial_weights."""

    def __post_init__(self) -> None:
        if self.teacher is not None and not any((self.soft_weight, self.hard_weight, *self.layer_terms.values())):
            problem = "has a teacher, and all weights of its terms are 0"
            raise ConfigError("distillation", problem, "give soft_weight=5, say, or distillation=none")

    @property
    def layer_terms(self) -> Mapping[str, float]:
        """The terms of the layers that are asked for, and their weights."""
        terms = {"cosine": self.cosine_weight, "hidden": self.hidden_weight, "attention": self.attention_weight}
        return {name: weight for name, weight in terms.items() if weight}

    @property
    def layers_are_paired(self) -> bool:
        """Whether a term compares layers of the student with chosen ones of the teacher."""
        return bool(self.hidden_weight or self.attention_weight)

    def pairs(self, layers: int, teacher_layers: int) -> tuple[tuple[int, int], ...]:
        """Returns the layers of the student and of the teacher that are compared, counted from 1.

        Args:
            layers: those of the student.
            teacher_layers: those of the teacher.
        """
        chosen = self.teacher_layers or [layer * teacher_layers // layers for layer in range(1, layers + 1)]
        return tuple((layer, of_teacher) for layer, of_teacher in enumerate(chosen, 1) if of_teacher)

    def check(self, student: ModelConfig, teacher: ModelConfig) -> None:
        """Checks that the chosen terms can be computed for a ``student`` of this ``teacher``.

        Raises:
            ConfigError: naming the setting and the values that do not fit.
        """
        if self.cosine_weight and student.width != teacher.width:
            problem = f"is {self.cosine_weight}, and the widths are {student.width} and the teacher's {teacher.width}"
            raise ConfigError("distillation.cosine_weight", problem, f"give 0, or model.width={teacher.width}")
        if self.attention_weight and student.mixer != "attention":
            problem = f"is {self.attention_weight}, and model.mixer={student.mixer} computes no attention"
            raise ConfigError("distillation.attention_weight", problem, "give 0, or model.mixer=attention")
        if self.attention_weight and student.heads != teacher.heads:
            problem = f"is {self.attention_weight}, and the heads are {student.heads} and the teacher's {teacher.heads}"
            raise ConfigError("distillation.attention_weight", problem, f"give 0, or model.heads={teacher.heads}")
        if self.layers_are_paired:
            self._check_pairs(student.layers, teacher.layers)
        if self.initial_layers and student.shared_layers:
            problem = f"is {list(self.initial_layers)}, and the student's layers share their weights"
            raise ConfigError("distillation.initial_layers", problem, "give [], or model.shared_layers=false")
        if self.initial_layers:
            _check_layers("initial_layers", self.initial_layers, student.layers, teacher.layers)

    def _check_pairs(self, layers: int, teacher_layers: int) -> None:
        if self.teacher_layers:
            _check_layers("teacher_layers", self.teacher_layers, layers, teacher_layers)
        elif teacher_layers % layers:
            problem = f"is empty, and the teacher's {teacher_layers} layers are no multiple of {layers}"
            raise ConfigError("distillation.teacher_layers", problem, "name the teacher's layer of each layer")


def _check_layers(name: str, chosen: tuple[int, ...], layers: int, teacher_layers: int) -> None:
    if len(chosen) != layers or max(chosen) > teacher_layers:
        problem = f"is {list(chosen)}, the student has {layers} layers and the teacher {teacher_layers}"
        raise ConfigError(f"distillation.{name}", problem, f"give {layers} numbers of at most {teacher_layers}")
