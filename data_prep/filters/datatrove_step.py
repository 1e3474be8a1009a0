"""Adapter that runs one of our filters in a datatrove pipeline.

    LocalPipelineExecutor(pipeline=[JsonlReader(...), DatatroveStep(PageLength(max_characters=1000)), ...])

Only this module, and a run with ``DatatroveFilter``, load datatrove's filters: these load a client of the Hugging Face
Hub, a quarter of a second of CPU time for each process.
"""

from datatrove.data import Document
from datatrove.pipeline.filters.base_filter import BaseFilter

from headrace.data_prep.filters.filter import Filter


class DatatroveStep(BaseFilter):
    """Keeps the documents that ``rule`` keeps. datatrove's statistics name the rules that dropped the others."""

    def __init__(self, rule: Filter) -> None:
        self.name = rule.type  # before the base class names its statistics by it
        super().__init__()
        self.rule = rule

    def filter(self, doc: Document) -> bool | tuple[bool, str]:
        """Returns the result of the filter in datatrove's form: True, or False with the rule that decided."""
        drop = self.rule.judge(doc)
        return True if drop is None else (False, drop.rule)
