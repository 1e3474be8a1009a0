"""GPT-3's sampling of Common Crawl by the score of a classifier: a rule of ``selection.rules``."""

from typing import Literal

from headrace.data_prep.columns.scorer import ColumnValues
from headrace.data_prep.selection_rules.rules import Factors, SelectionRule
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import PositiveNumber, Seed, settings


@settings
class Pareto(SelectionRule):
    """Keeps a document with probability (2 - value)^-alpha: all of value 1, few of value 0.

    GPT-3 kept pages with ``np.random.pareto(9) > 1 - score`` (Brown et al. 2020, appendix A); P(X > x) of that
    distribution is (1 + x)^-alpha. Values are from 0 to 1.
    """

    type: Literal["pareto"] = "pareto"
    column: str
    """The column that is read."""
    alpha: PositiveNumber = 9.0
    """The shape of the distribution (GPT-3: 9)."""
    seed: Seed = 0
    """Seed of the draw."""

    def factors(self, values: ColumnValues) -> Factors:
        outside = values[(values < 0) | (values > 1)]
        if outside.size:
            problem = f"{self.column!r} has the value {outside[0]:g}, and {self.type} samples by values from 0 to 1"
            raise ConfigError("selection.rules", problem, "name a column of such scores, or use copies or share")
        probabilities: Factors = (2 - values) ** -self.alpha
        return probabilities
