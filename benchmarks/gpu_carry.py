"""Collects what gpu_all.py needs on a machine that reaches no package registry, in one folder of a few megabytes.

    python -m benchmarks.gpu_carry FOLDER [--python 3.12] [--more flash-attn-4==… …]

    FOLDER/wheels    packages in the versions installed here, for Linux on x86-64 and that Python; DeepSpeed without
                     kernels
    FOLDER/inputs    a tokenizer, tokens and packed rows of made-up text

It needs the whole project here: the data stages make the inputs. There, Python must have torch, numpy, safetensors,
tokenizers, PyYAML, rich, psutil, einops, scipy, xxhash and pytest. In a checkout with FOLDER, three calls of at most
eight minutes, each with its results in $OUT/gpu_PART.jsonl and all that was printed in $OUT/gpu_PART.log:

    python3 -m pip install -q --no-index --no-deps --target /tmp/site FOLDER/wheels/*.whl   # once
    export PYTHON=python3 PYTHONPATH=/tmp/site OUT=results
    bash benchmarks/gpu_all.sh right --inputs FOLDER/inputs
    bash benchmarks/gpu_all.sh ledger
    bash benchmarks/gpu_all.sh scale

``--more`` adds packages without what they depend on: flash-attn-4 and its own, for the items ``flash`` of the ledger.
"""

import argparse
import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.gpu_right import make_inputs

PACKAGES = (
    *("annotated-types", "gigatoken", "hjson", "msgpack", "orjson", "pydantic", "pydantic-core", "typing-inspection"),
    "zstandard",
)
"""What a Python with torch lacks, besides DeepSpeed."""
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64", "manylinux_2_27_x86_64")


def collect_wheels(folder: Path, python: str, more: list[str]) -> None:
    pip = [sys.executable, "-m", "pip"]
    pinned = [f"{name}=={importlib.metadata.version(name)}" for name in PACKAGES]
    target = ["--only-binary=:all:", "--implementation", "cp", "--python-version", python]
    target += [argument for platform in PLATFORMS for argument in ("--platform", platform)]
    subprocess.run([*pip, "download", "-q", "--no-deps", *target, "-d", folder, *pinned, *more], check=True)
    deepspeed = f"deepspeed=={importlib.metadata.version('deepspeed')}"
    built = [*pip, "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, deepspeed]
    subprocess.run(built, check=True, env=os.environ | {"DS_BUILD_OPS": "0"})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--python", default="3.12")
    parser.add_argument("--more", nargs="*", default=[])
    asked = parser.parse_args()
    collect_wheels(asked.folder / "wheels", asked.python, asked.more)
    make_inputs(asked.folder / "inputs")
    sizes = {path.name: path.stat().st_size for path in sorted(asked.folder.glob("wheels/*"))}
    total = sum(path.stat().st_size for path in asked.folder.rglob("*") if path.is_file())
    print(
        json.dumps({"mb": round(total / 1e6, 1), "wheels_mb": {name: round(n / 1e6, 2) for name, n in sizes.items()}})
    )


if __name__ == "__main__":
    main()
