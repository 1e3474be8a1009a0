"""The table of model families: a new family is one line here and a module of this folder."""

from headrace.train.config import ModelConfig
from headrace.train.context import LEFT_TO_RIGHT, ContextForm
from headrace.train.families.albert import Albert
from headrace.train.families.bart import Bart
from headrace.train.families.bert import Bert
from headrace.train.families.bloom import Bloom
from headrace.train.families.electra import Electra
from headrace.train.families.family import Family
from headrace.train.families.gemma import Gemma
from headrace.train.families.gemma2 import Gemma2
from headrace.train.families.gpt1 import Gpt1
from headrace.train.families.gpt2 import Gpt2
from headrace.train.families.gpt_neo import GptNeo
from headrace.train.families.gpt_neox import GptNeoX
from headrace.train.families.llama import Llama
from headrace.train.families.mistral import Mistral
from headrace.train.families.modernbert import ModernBert
from headrace.train.families.mpt import Mpt
from headrace.train.families.olmo import Olmo
from headrace.train.families.olmo2 import Olmo2
from headrace.train.families.opt import Opt
from headrace.train.families.own import Own
from headrace.train.families.qwen2 import Qwen2
from headrace.train.families.qwen3 import Qwen3
from headrace.train.families.roberta import Roberta
from headrace.train.families.starcoder2 import Starcoder2
from headrace.train.families.t5 import T5
from headrace.train.families.umt5 import Umt5

OWN = Own()
FAMILIES: tuple[Family, ...] = (
    *(Gpt1(), Gpt2(), GptNeo(), Opt(), Bloom(), Mpt(), GptNeoX(), Starcoder2()),
    *(Llama(), Mistral(), Qwen2(), Qwen3(), Olmo(), Olmo2(), Gemma(), Gemma2()),
    *(Bert(), Roberta(), ModernBert(), Electra(), Albert()),
    *(T5(), Umt5(), Bart()),
)
"""The families that have a class in ``transformers``."""


def family_of(config: ModelConfig, context_form: ContextForm = LEFT_TO_RIGHT) -> Family:
    """Returns the first family that computes what ``config`` describes.

    A mixture of several families' parts has our own format, and a prefix LM of one stack: no class of ``transformers``
    has its mask.
    """
    if context_form.looks_ahead and config.stack == "decoder":
        return OWN
    same_stack = (family for family in FAMILIES if config.stack in family.stacks)
    return next((family for family in same_stack if family.computes(config)), OWN)


def family_of_type(model_type: object) -> Family | None:
    """Returns the family with this ``model_type`` in config.json; None for a model that Headrace does not compute."""
    return next((family for family in (*FAMILIES, OWN) if family.model_type == model_type), None)
