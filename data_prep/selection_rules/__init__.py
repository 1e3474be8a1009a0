"""The table of rules of selection, which are the possible entries of ``selection.rules``."""

from typing import Annotated

from headrace.data_prep.selection_rules.rules import SelectionRule
from headrace.pipeline.core.kinds import Kinds

SELECTION_RULES = Kinds(
    "selection_rule",
    SelectionRule,
    {
        "threshold": "headrace.data_prep.selection_rules.rules:Threshold",
        "any_of": "headrace.data_prep.selection_rules.rules:AnyOf",
        "share": "headrace.data_prep.selection_rules.rules:Share",
        "copies": "headrace.data_prep.selection_rules.rules:Copies",
    },
)
AnySelectionRule = Annotated[SelectionRule, SELECTION_RULES]
