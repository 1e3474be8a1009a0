"""Compares trainings of the engine (DeepSpeed) with plain PyTorch's, and with plain PyTorch's with known faults.

    python -m benchmarks.train.equivalence [--ranks 1 2 4]

All cases of tests/train/equivalence.py on each number of ranks (gloo, CPU): ZeRO stage 0 to 3, accumulation 1 and 4,
fp32 and bf16, with and without clipping, tied GPT-2 and untied LLaMA; five updates of 16 rows, unequally padded. Prints
one JSON line; a distance has the three numbers that module defines, at the worst step:

    cases      trainings compared
    apart      by precision: the largest distances of all cases
    tolerance  by precision: what is allowed
    exceeded   cases beyond it
    faults     by fault and precision: the distance of a plain training with that fault from one without, two ranks

Exit status 1 when a case is beyond its tolerance.
"""

import argparse
import dataclasses
import functools
import json
import sys
import tempfile
import time
from pathlib import Path

import torch

from tests.train import plain
from tests.train.equivalence import CLIP, TOLERANCES, WORLDS, Distance, distance, launch, matrix
from tests.train.updates import Case


def worst(distances: list[Distance]) -> dict[str, float]:
    return {name: max(getattr(distance, name) for distance in distances) for name in vars(distances[0])}


def fault_distances() -> dict[str, dict[str, dict[str, float]]]:
    cases = {precision: Case("gpt2-tied", 1, 4, precision, CLIP) for precision in TOLERANCES}
    return {
        fault: {
            precision: vars(distance(plain.learn(case, world=2, factor=factor), plain.learn(case)))
            for precision, case in cases.items()
        }
        for fault, factor in plain.FAULTS.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=list(WORLDS))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    start, expected = time.perf_counter(), functools.cache(plain.learn)
    distances: dict[tuple[int, Case], Distance] = {}
    for world in arguments.ranks:
        print(f"{len(matrix())} cases on {world} ranks", file=sys.stderr)
        with tempfile.TemporaryDirectory() as folder:
            for key, curve in launch(Path(folder), {world: matrix()}).items():
                distances[key] = distance(curve, expected(dataclasses.replace(key[1], stage=0, accumulation=1)))
    by_precision = {
        precision: [distance for (_, case), distance in distances.items() if case.precision == precision]
        for precision in TOLERANCES
    }
    exceeded = [
        f"{world} ranks, {case.name}: {distance}"
        for (world, case), distance in distances.items()
        if distance.exceeded(TOLERANCES[case.precision])
    ]
    result = {
        "cases": len(distances),
        "ranks": arguments.ranks,
        "seconds": round(time.perf_counter() - start),
        "apart": {precision: worst(distances_of) for precision, distances_of in by_precision.items()},
        "tolerance": {precision: vars(tolerance) for precision, tolerance in TOLERANCES.items()},
        "exceeded": exceeded,
        "faults": fault_distances(),
    }
    print(json.dumps(result))
    sys.exit(bool(exceeded))


if __name__ == "__main__":
    main()
