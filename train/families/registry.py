"""The table of model families: a new family is one line here and a module beside this one."""

from headrace.train.config import ModelConfig
from headrace.train.families.family import Family
from headrace.train.families.gpt1 import Gpt1
from headrace.train.families.gpt2 import Gpt2
from headrace.train.families.llama import Llama
from headrace.train.families.own import Own

OWN = Own()
FAMILIES: tuple[Family, ...] = (Gpt1(), Gpt2(), Llama())
"""The families that have a class in ``transformers``."""


def family_of(config: ModelConfig) -> Family:
    """Returns the first family that computes what ``config`` describes; a mixture of their parts has our own format."""
    return next((family for family in FAMILIES if family.computes(config)), OWN)


def family_of_type(model_type: object) -> Family | None:
    """Returns the family with this ``model_type`` in config.json; None for a model that Headrace does not compute."""
    return next((family for family in (*FAMILIES, OWN) if family.model_type == model_type), None)
