#!/usr/bin/env bash
# All that needs a GPU, in calls of at most eight minutes: right, families, line, ledger, scale, kernels (parts.py says what
# they do).
#
#   [PYTHON=python OUT=.] bash benchmarks/gpu/parts.sh PART [--device cpu --tiny] [--inputs FOLDER]
#   [PYTHON=python OUT=.] bash benchmarks/gpu/parts.sh score MODEL FILE...
#
# Results are JSON lines in $OUT/gpu_PART.jsonl. `right` first: nothing is timed on kernels that compute something else.
# carry.py collects packages and the inputs FOLDER for a machine without a registry. `score` compares scoring with
# lm-evaluation-harness: MODEL is a Hugging Face folder, FILEs are those of conf/evaluation/standard.yaml.
set -euo pipefail
cd "$(dirname "$0")/../.."
python=${PYTHON:-python} out=${OUT:-.}
export PYTHONPATH=src:.${PYTHONPATH:+:$PYTHONPATH} # where headrace is not installed

if [ "$1" = score ]; then
  "$python" -m benchmarks.evaluation.parity "${@:2}" --limit 50 --minutes 3 --device cuda | tee -a "$out/gpu_score.jsonl"
  "$python" -m benchmarks.evaluation.speed "${@:2}" --limit 200 --batches 8,64 --device cuda | tee -a "$out/gpu_score.jsonl"
else
  exec "$python" -m benchmarks.gpu.parts "$@" --out "$out"
fi
