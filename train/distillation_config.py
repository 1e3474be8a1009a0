"""The settings of distillation: a student learns from a teacher in addition to its objective (conf/distillation/).

    soft targets    its distributions over tokens            Hinton et al. 2015
    cosine          the direction of its last hidden states  DistilBERT, Sanh et al. 2019

This module imports no torch.
"""

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import (
    FilePath,
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
    temperature (Hinton et al. 2015), and of the cosine."""

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
    initial_layers: tuple[Positive, ...] = ()
    """The layer of the teacher, counted from 1, whose weights each layer of the student begins with; all other weights
    are the teacher's, too. Empty: random weights, or those of training.initial_weights."""

    def __post_init__(self) -> None:
        if self.teacher is not None and not any((self.soft_weight, self.hard_weight, self.cosine_weight)):
            problem = "has a teacher, and all weights of its terms are 0"
            raise ConfigError("distillation", problem, "give soft_weight=5, say, or distillation=none")

    def check(self, student: ModelConfig, teacher: ModelConfig) -> None:
        """Checks that the chosen terms can be computed for a ``student`` of this ``teacher``.

        Raises:
            ConfigError: naming the setting and the values that do not fit.
        """
        if self.cosine_weight and student.width != teacher.width:
            problem = f"is {self.cosine_weight}, and the widths are {student.width} and the teacher's {teacher.width}"
            raise ConfigError("distillation.cosine_weight", problem, f"give 0, or model.width={teacher.width}")
        if not self.initial_layers:
            return
        chosen, layers, most = list(self.initial_layers), student.layers, teacher.layers
        if student.shared_layers:
            problem = f"is {chosen}, and the student's layers share their weights"
            raise ConfigError("distillation.initial_layers", problem, "give [], or model.shared_layers=false")
        if len(chosen) != layers or max(chosen) > most:
            problem = f"is {chosen}, the student has {layers} layers and the teacher {most}"
            raise ConfigError("distillation.initial_layers", problem, f"give {layers} numbers of at most {most}")
