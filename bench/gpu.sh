#!/usr/bin/env bash
# Measures stepmark on one CUDA GPU; not yet run on one. Needs network access to the Hub.
#   bash bench/gpu.sh [problems]      (default 64; about an hour on a 4090)
# Writes bench/results/gpu/: the machine, labels' manifests, and the saturation figures.
set -euo pipefail
cd "$(dirname "$0")/.."
problems="${1:-64}"
python="${PYTHON:-.venv/bin/python}"
out=bench/results/gpu
mkdir -p "$out"

nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv | tee "$out/machine.csv"
"$python" -m pip freeze > "$out/packages.txt"
"$python" -c "import vllm; print('vllm', vllm.__version__)" | tee -a "$out/machine.csv"

# tokens/s of the whole pipeline beside the raw engine and the usual loop
"$python" -m bench.saturation --engine vllm --config configs/gsm8k-4090.toml \
  --num-problems "$problems" --loop-problems 4 --repeats 2 --json "$out/saturation_1.5b.json"

# labels, with the cost ledger in each manifest; run twice: the second must draw nothing
for config in gsm8k-4090; do
  for run in first second; do
    "$(dirname "$python")/stepmark" generate --config "configs/$config.toml" \
      --set "problems.limit=$problems" --out "out/gpu-$config" 2>&1 | tee "$out/$config-$run.log"
  done
  cp "out/gpu-$config/manifest.json" "$out/$config-manifest.json"
done

nvidia-smi --query-gpu=memory.used,utilization.gpu --format=csv | tee -a "$out/machine.csv"
echo "results are in $out"
