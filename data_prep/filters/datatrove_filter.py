"""Adapter that runs a datatrove filter, or any other subclass of its BaseFilter, named by its dotted path.

{type: datatrove, path: datatrove.pipeline.filters.RegexFilter, arguments: {regex_exp: "lorem"}}
"""

import dataclasses
import functools
import importlib
import inspect
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.filter import AS_STORED, Explanations, Filter, filter_settings
from headrace.data_prep.filters.guards import PageErrors
from headrace.pipeline.core.errors import ConfigError, suggestion

if TYPE_CHECKING:
    from datatrove.pipeline.filters.base_filter import BaseFilter


@filter_settings
class DatatroveFilter(Filter):
    """Drops the pages that the datatrove filter ``path`` drops: rule ``datatrove.<class>``, value its reason."""

    explanations: ClassVar[Explanations] = {"": ("Drops the pages that {path} drops.", AS_STORED)}
    type: Literal["datatrove"] = "datatrove"
    path: str
    """The class as <module>.<class>."""
    arguments: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Arguments of its constructor."""

    def check(self) -> None:
        """Constructs the class."""
        _ = self.inner

    @property
    def base_reason(self) -> str:
        return f"{self.type}.{self.path.rpartition('.')[2]}"

    def judge(self, document: Document) -> Drop | None:
        from datatrove.pipeline.filters.base_filter import get_filter_result  # a quarter of a second

        try:
            with PageErrors(self.base_reason):
                is_kept, reason = get_filter_result(self.inner.filter(document))
        except ImportError as error:
            raise ConfigError(f"datatrove {self.path}", f"cannot run ({error})", "install what it needs") from None
        return None if is_kept else Drop(self.base_reason, str(reason or ""))

    @functools.cached_property
    def inner(self) -> "BaseFilter":
        """The filter. It is constructed when it is needed: the class may be the user's, and questions run no code."""
        return construct(self.path, self.arguments)


def construct(path: str, arguments: dict[str, Any]) -> "BaseFilter":
    """Constructs the filter ``path`` with ``arguments``.

    Raises:
        ConfigError: when the module or class does not exist, is not a filter, or refuses the arguments.
    """
    cls = filter_class(path)
    signature = inspect.signature(cls)
    unknown = [name for name in arguments if name not in signature.parameters]
    if unknown:
        known = [name for name in signature.parameters if name != "exclusion_writer"]
        raise ConfigError(f"datatrove {path}", f"has no argument {unknown[0]!r}", suggestion(unknown[0], known))
    try:
        return cls(**arguments)
    except (TypeError, ValueError, ImportError, OSError) as error:
        raise ConfigError(f"datatrove {path}", f"refuses {arguments} ({error})", "correct the arguments") from None


def filter_class(path: str) -> "type[BaseFilter]":
    """Imports the filter class with the dotted ``path``."""
    from datatrove.pipeline.filters.base_filter import BaseFilter

    module_name, _, name = path.rpartition(".")
    try:
        module = importlib.import_module(module_name)
    except (ImportError, ValueError) as error:
        remedy = "name a class as <module>.<class>, such as datatrove.pipeline.filters.RegexFilter"
        raise ConfigError("datatrove path", f"{path!r} cannot be imported ({error})", remedy) from None
    filters = [key for key, value in vars(module).items() if inspect.isclass(value) and issubclass(value, BaseFilter)]
    if name not in filters:
        raise ConfigError("datatrove path", f"{module_name} has no filter {name!r}", suggestion(name, filters))
    cls: type[BaseFilter] = getattr(module, name)
    return cls
