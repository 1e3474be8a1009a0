"""The union of objectives."""

from headrace.train.objectives.causal import Causal

AnyObjective = Causal
"""The settings of any objective, chosen by their ``type``."""
