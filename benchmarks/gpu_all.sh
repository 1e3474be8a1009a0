#!/usr/bin/env bash
# All that needs a GPU, one after the other (about 10 minutes on one H200); the JSON lines go into benchmarks/records.
#
#   bash benchmarks/gpu_all.sh [PYTHON [MODEL FILE...]] > gpu.jsonl
#
# With MODEL, a Hugging Face folder, and files of conf/evaluation/standard.yaml, scoring beside lm-evaluation-harness too.
# Equality first: nothing is timed on kernels that compute something else. Each step of the ledger switches one thing.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:-python}
export PYTHONPATH=src:. # where headrace is not installed

"$python" benchmarks/gpu_checks.py
"$python" benchmarks/plan_memory.py --device cuda
"$python" benchmarks/deepspeed_overhead.py --stages 1 2 3 --rows 32 --pairs 30
"$python" benchmarks/train_step.py --model gpt2_124m --micro-rows 16 --compile off
for stage in 1 2 3; do
  "$python" benchmarks/train_step.py --model gpt2_124m --micro-rows 32 --accumulation 2 --stage "$stage"
done
"$python" benchmarks/train_step.py --model gpt2_350m --micro-rows 16 --accumulation 2
"$python" benchmarks/train_step.py --model gpt2_1.3b --micro-rows 8 --accumulation 4
if [ $# -gt 2 ]; then
  "$python" benchmarks/evaluation_parity.py "${@:2}" --limit 50 --minutes 3 --device cuda
  "$python" benchmarks/evaluation_speed.py "${@:2}" --limit 200 --batches 8,64 --device cuda
fi
