"""Tests that every topology resumes the state of every other with equal results. Prints one JSON line.

    python -m benchmarks.train.reshaping

The whole table of tests/train/topologies.py on real processes (gloo, CPU): fp32 from 1 and 2 ranks x ZeRO stages 0 to
3, bf16 from 2 ranks x stages 1 to 3, each to 1, 2 and 4 ranks x all these stages; 20 steps after the checkpoint.

    pairs        resumptions
    restored     those whose master values and means were bit for bit the saved ones right after loading: must be all
    same         those on as many ranks at the same stage
    identical    of these, those whose losses and last weights are bit for bit those of the undisturbed run: must be all
    apart_nats   by precision: the largest distance of a loss from the undisturbed run's
"""

import dataclasses
import json
import sys
import tempfile
import time
from pathlib import Path

from tests.train.topologies import SAVED_STEP, STAGES, resume, table

STEPS = 20
"""Of each resumed training."""


def main() -> int:
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        resumed = resume(Path(folder), [dataclasses.replace(pair, last_step=SAVED_STEP + STEPS) for pair in table()])
    same = [resumption for pair, resumption in resumed.items() if pair.same]
    result = {
        "benchmark": "reshaping",
        "pairs": len(resumed),
        "restored": sum(resumption.is_restored for resumption in resumed.values()),
        "same": len(same),
        "identical": sum(resumption.is_identical for resumption in same),
        "apart_nats": {
            precision: max(resumption.apart for pair, resumption in resumed.items() if pair.precision == precision)
            for precision in STAGES
        },
        "seconds": round(time.monotonic() - begun),
    }
    print(json.dumps(result))
    return int(result["restored"] < len(resumed) or result["identical"] < len(same))


if __name__ == "__main__":
    sys.exit(main())
