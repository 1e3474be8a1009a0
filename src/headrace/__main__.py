"""``python -m headrace``: the command line."""

import sys

from headrace.pipeline.__main__ import main

sys.exit(main())
