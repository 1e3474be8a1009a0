"""The table of rules of selection, which are the possible entries of ``selection.rules``."""

from typing import Annotated

from headrace.data_prep.selection_rules.selection_rule import SelectionRule
from headrace.pipeline.core.kinds import Kinds

SELECTION_RULES = Kinds(
    "selection_rule",
    SelectionRule,
    {
        "threshold": "headrace.data_prep.selection_rules.value_rules:Threshold",
        "any_of": "headrace.data_prep.selection_rules.value_rules:AnyOf",
        "share": "headrace.data_prep.selection_rules.share_rule:Share",
        "copies": "headrace.data_prep.selection_rules.copy_rules:Copies",
        "pareto": "headrace.data_prep.selection_rules.copy_rules:Pareto",
    },
)
AnySelectionRule = Annotated[SelectionRule, SELECTION_RULES]
