"""The environment of a process of Headrace: without what belongs to another process, and in UTF-8.

    headrace … ── prepare ──> RANK, MASTER_ADDR, HEADRACE_JOB, … are removed
                          └─> under PYTHONUTF8=0, PYTHONIOENCODING or PYTHONWARNINGS=error: the same command once more

Files and logs are UTF-8 whatever the locale says, names of files are those bytes that UTF-8 gives, and a warning of a
library does not end a run. docs/fault-tolerance.md lists which other variables have an effect.
"""

import os
import sys
from collections.abc import Mapping

from headrace.pipeline.core.variables import OF_A_JOB, without_process

UTF_8, STREAMS, WARNINGS = "PYTHONUTF8", "PYTHONIOENCODING", "PYTHONWARNINGS"


def prepare() -> None:
    """Prepares the environment of this process, which runs a command. Starts the command again where Python has read a
    variable that it must not obey: encodings and warnings are decided before the first module runs.
    """
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(_of_a_command(before))
    is_utf_8 = sys.getfilesystemencoding() == "utf-8"  # open() has the same encoding
    if not is_utf_8 or any(before.get(name) != os.environ.get(name) for name in (STREAMS, WARNINGS)):
        os.environ[UTF_8] = "1"
        sys.stdout.flush()
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])


def _of_a_command(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns ``environment`` without variables of another process or job, and without those that break Python here."""
    own = {name: value for name, value in without_process(environment).items() if name not in OF_A_JOB}
    own.pop(STREAMS, None)
    if "error" in own.get(WARNINGS, ""):
        del own[WARNINGS]
    return own
