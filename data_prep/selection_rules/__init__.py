"""The union of all rules of selection, which are the possible entries of ``selection.rules``."""

from typing import Annotated

from pydantic import Field

from headrace.data_prep.selection_rules.copy_rules import Copies, Pareto
from headrace.data_prep.selection_rules.share_rule import Share
from headrace.data_prep.selection_rules.value_rules import AnyOf, Threshold

AnySelectionRule = Annotated[Threshold | AnyOf | Share | Copies | Pareto, Field(discriminator="type")]
