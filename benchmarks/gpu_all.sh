#!/usr/bin/env bash
# All that needs a GPU, in calls of at most eight minutes: right, families, line, ledger, scale, kernels (gpu_all.py says what
# they do).
#
#   [PYTHON=python OUT=.] bash benchmarks/gpu_all.sh PART [--device cpu --tiny] [--inputs FOLDER]
#   [PYTHON=python OUT=.] bash benchmarks/gpu_all.sh score MODEL FILE...
#
# Results are JSON lines in $OUT/gpu_PART.jsonl. `right` first: nothing is timed on kernels that compute something else.
# gpu_carry.py collects packages and the inputs FOLDER for a machine without a registry. `score` compares scoring with
# lm-evaluation-harness: MODEL is a Hugging Face folder, FILEs are those of conf/evaluation/standard.yaml.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python} out=${OUT:-.}
export PYTHONPATH=src:.${PYTHONPATH:+:$PYTHONPATH} # where headrace is not installed

if [ "$1" = score ]; then
  "$python" benchmarks/evaluation_parity.py "${@:2}" --limit 50 --minutes 3 --device cuda | tee -a "$out/gpu_score.jsonl"
  "$python" benchmarks/evaluation_speed.py "${@:2}" --limit 200 --batches 8,64 --device cuda | tee -a "$out/gpu_score.jsonl"
else
  exec "$python" benchmarks/gpu_all.py "$@" --out "$out"
fi
