"""Finds secrets in text: in URLs, headers, assignments to variables, and the values of such variables here.

    s3://AKIA…:secret@bucket/crawl                    a password before the host
    https://token@host/page                           a user name in a web address, which is often a token
    https://host/a.gz?X-Amz-Signature=51c3…           a signed URL
    --export=ALL,AWS_SECRET_ACCESS_KEY=51c3…          an environment variable
    Authorization: Bearer 51c3…                       a header
    51c3…                                             the value of an environment variable with such a name

Settings are written to run.json, to manifests and into document ids. So settings.decode refuses a setting with a
secret. Whatever is shown or sent (errors, logs, notices, wandb) has ``***`` in its place: ``redacted``.
"""

import itertools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

HIDDEN = "***"

_SECRET_NAME = re.compile(
    r"(?i)(?:[\w.-]*[_.-])?(?:signature|sig|token|password|passwd|pwd|passphrase|secret|credentials?|auth|authorization"
    r"|api[_-]?key|access[_-]?key(?:[_-]?id)?|account[_-]?key|awsaccesskeyid|key|jwt|sas)"
)
"""Names of parameters and settings whose value is a secret."""
_PARAMETER = re.compile(r"(?<=[?&;#])([\w.-]+)=([^&;#'\",)\]]+)")
_VARIABLE_NAME = r"(?:KEY|TOKEN(?!I)|PASSW(?:OR)?D|SECRET|CREDENTIAL)"
"""A part of the names of environment variables that hold a secret; TOKENIZERS_PARALLELISM does not."""
_VARIABLE = re.compile(rf"(\b[A-Z0-9_]*{_VARIABLE_NAME}[A-Z0-9_]*=)(?!VALUE\b)(?:\"[^\"\n]+\"|'[^'\n]+'|[^\s,;'\"]+)")
"""An assignment to an environment variable that holds a secret; not the ``KEY=VALUE`` of our own messages."""
_HEADER = re.compile(
    r"""(?i)(\b(?:proxy-)?authorization["']?\s*[:=]\s*["']?(?:\w+[ ]+(?=[^\s,;'"]))?|\bbearer\s+)(?!\*\*\*)[^\s,;'"]+"""
)
_LEAST_CHARACTERS = 6
"""The shortest value of an environment variable that is looked for: shorter ones are parts of other words."""
_PASSWORD = re.compile(r"\A(?!\[)([^/?#\s@:]*:)(?!\d*(?:[/?#,\s]|$))\S+@")
"""The user name and password before a host. Passwords may contain slashes, as those of AWS do. Digits before a slash
are a port, not a password."""
_TOKEN = re.compile(r"\A[^/?#\s@]+@")
_WEB = ("http", "https", "ftp", "ftps")
_REVISIONS = ("github", "git")
"""Schemes in which ``owner:repository@revision`` is no password, although it looks like one."""


def redacted(text: str) -> str:
    """Returns ``text`` with ``***`` instead of each secret, also those in the environment variables of this process."""
    named = (value for name, value in os.environ.items() if re.search(_VARIABLE_NAME, name.upper()))
    for value in sorted(named, key=len, reverse=True):
        text = text.replace(value, HIDDEN) if len(value) >= _LEAST_CHARACTERS else text
    return _HEADER.sub(rf"\g<1>{HIDDEN}", _without_written(text))


def _without_written(text: str) -> str:
    """Returns ``text`` with ``***`` instead of each secret that its form shows to be one."""
    pieces = text.split("://")  # a chained URL, zip://a.csv::https://host/b.zip, has several hosts
    redacted_pieces = [pieces[0], *itertools.starmap(_redacted_url, itertools.pairwise(pieces))]
    return _VARIABLE.sub(rf"\g<1>{HIDDEN}", "://".join(redacted_pieces))


def secret_paths(value: Any, path: str = "") -> Iterator[str]:
    """Yields the dotted paths of all secrets inside ``value``, which consists of plain values (from YAML)."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            below = f"{path}.{key}" if path else str(key)
            is_named = isinstance(item, str) and item and _SECRET_NAME.fullmatch(str(key))
            yield from [below] if is_named else secret_paths(item, below)
    elif isinstance(value, str):
        yield from [path] if _without_written(value) != value else []
    elif isinstance(value, Sequence):
        for number, item in enumerate(value):
            yield from secret_paths(item, f"{path}.{number}" if path else str(number))


def without_secrets(value: Any) -> Any:
    """Returns plain ``value`` with ``***`` instead of each text with a secret."""
    if isinstance(value, Mapping):
        return {key: HIDDEN if _is_secret({key: item}) else without_secrets(item) for key, item in value.items()}
    if isinstance(value, list):
        return [HIDDEN if _is_secret([item]) else without_secrets(item) for item in value]
    return value


def _is_secret(holder: Any) -> bool:
    """Whether the only value of ``holder`` is a text with a secret."""
    (item,) = holder.values() if isinstance(holder, dict) else holder
    return isinstance(item, str) and (redacted(item) != item or any(secret_paths(holder)))


def _redacted_url(before: str, after: str) -> str:
    """Returns ``after`` without its secrets. ``before`` ends with the scheme, and ``://`` stood between the two."""
    scheme = re.split(r"[^A-Za-z0-9+.-]", before[-16:])[-1].lower()
    if scheme not in _REVISIONS:
        after = _PASSWORD.sub(rf"\g<1>{HIDDEN}@", after)
    if scheme in _WEB:
        after = _TOKEN.sub(f"{HIDDEN}@", after)
    end = len(after.split(maxsplit=1)[0]) if after and not after[0].isspace() else 0
    return _PARAMETER.sub(_redacted_parameter, after[:end]) + after[end:]


def _redacted_parameter(match: "re.Match[str]") -> str:
    return f"{match[1]}={HIDDEN}" if _SECRET_NAME.fullmatch(match[1]) else match[0]
