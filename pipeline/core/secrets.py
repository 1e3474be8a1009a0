"""Secrets in text: passwords and signatures inside URLs, and assignments of variables that hold a secret.

    s3://AKIA…:secret@bucket/crawl                    a password before the host
    https://token@host/page                           a name before the host of a web address is a token, too
    https://host/a.gz?X-Amz-Signature=51c3…           a signed URL
    --export=ALL,AWS_SECRET_ACCESS_KEY=51c3…          a variable

Settings are written to run.json, to manifests and into every document id, so a setting must not hold a secret
(settings.decode refuses it), and an error message shows ``***`` in its place.
"""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

HIDDEN = "***"

_SECRET_NAME = re.compile(
    r"(?i)(?:[\w.-]*[_.-])?(?:signature|sig|token|password|passwd|pwd|passphrase|secret|credentials?|auth|authorization"
    r"|api[_-]?key|access[_-]?key(?:[_-]?id)?|account[_-]?key|awsaccesskeyid|key|jwt|sas)"
)
"""The name of a parameter or of an option whose value is a secret."""
_PARAMETER = re.compile(r"(?<=[?&;#])([\w.-]+)=([^&;#'\",)\]]+)")
_VARIABLE = re.compile(
    r"(\b(?:[A-Z][A-Z0-9_]*_)?(?:SECRET|PASSWORD|PASSWD|TOKEN|API_?KEY|ACCESS_KEY)(?:_[A-Z0-9]+)*=)[^\s,;'\"]+"
)
"""The assignment of an environment variable that holds a secret."""
_PASSWORD = re.compile(r"\A(?!\[)([^/?#\s@:]*:)(?!\d*(?:[/?#,\s]|$))\S+@")
"""What stands before the host. A password may hold slashes, as AWS's do; digits up to a slash are a port."""
_TOKEN = re.compile(r"\A[^/?#\s@]+@")
_WEB = ("http", "https", "ftp", "ftps")
_REVISIONS = ("github", "git")
"""The schemes whose ``owner:repository@revision`` looks like a name and a password."""


def redacted(text: str) -> str:
    """``text`` with ``***`` in the place of every secret."""
    pieces = text.split("://")  # of a chained URL, zip://a.csv::https://host/b.zip, each has its own host
    shown = [pieces[0], *itertools.starmap(_redacted_url, itertools.pairwise(pieces))]
    return _VARIABLE.sub(rf"\g<1>{HIDDEN}", "://".join(shown))


def secret_places(value: Any, path: str = "") -> Iterator[str]:
    """The dotted paths of the values in ``value``, which is made of plain values, that hold a secret."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            here = f"{path}.{key}" if path else str(key)
            is_named = isinstance(item, str) and item and _SECRET_NAME.fullmatch(str(key))
            yield from [here] if is_named else secret_places(item, here)
    elif isinstance(value, str):
        yield from [path] if redacted(value) != value else []
    elif isinstance(value, Sequence):
        for number, item in enumerate(value):
            yield from secret_places(item, f"{path}.{number}" if path else str(number))


def _redacted_url(before: str, behind: str) -> str:
    """``behind``, which follows the scheme that ``before`` ends with and ``://``, without its secrets."""
    scheme = re.split(r"[^A-Za-z0-9+.-]", before[-16:])[-1].lower()
    if scheme not in _REVISIONS:
        behind = _PASSWORD.sub(rf"\g<1>{HIDDEN}@", behind)
    if scheme in _WEB:
        behind = _TOKEN.sub(f"{HIDDEN}@", behind)
    end = len(behind.split(maxsplit=1)[0]) if behind and not behind[0].isspace() else 0
    return _PARAMETER.sub(_redacted_parameter, behind[:end]) + behind[end:]


def _redacted_parameter(found: "re.Match[str]") -> str:
    return f"{found[1]}={HIDDEN}" if _SECRET_NAME.fullmatch(found[1]) else found[0]
