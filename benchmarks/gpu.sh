#!/usr/bin/env bash
# What a GPU makes of the demo models: parity with torch, the floor, load, and several processes on one device.
#
#   benchmarks/gpu.sh [FOLDER]       log, results and server logs go there; default: gpu-results
#
#   PYTHON=python3.12   makes the virtual environment
#   WHEELS=folder       install from these wheels, without an index (pip download ".[gpu,export,bench]" setuptools)
#   VENV=folder         use this virtual environment as it is, and install nothing
#   REHEARSE=1          every step on a CPU and a few seconds each, to see that the script runs
#
# Paths are from the repository's root. Ends within BUDGET seconds (480). Every step has a limit; one that fails is
# named at the end (status 1), and the others still run. Without CUDA nothing runs (status 3).
set -uo pipefail
cd "$(dirname "$0")/.." || exit
BUDGET=${BUDGET:-480}
MODELS=(klue-ynat klue-ner klue-dp)
FAILED=()
SERVER=
export BENTOML_DO_NOT_TRACK=True TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1 PYTHONUNBUFFERED=1

if [[ -n ${REHEARSE:-} ]]; then
  DEVICE=cpu PRECISIONS=(fp32) CALLERS=4 SERVED=2 FLOOR=(--count 16) JOB=64
else
  DEVICE=cuda PRECISIONS=(fp32 fp16 fp16-packed) CALLERS=128 SERVED=8 FLOOR=(--count 512 --batch 64) JOB=8000
  if ! command -v nvidia-smi >/dev/null; then
    echo "gpu.sh: no CUDA here: there is no nvidia-smi (REHEARSE=1 runs every step on a CPU)" >&2
    exit 3
  elif ! GPUS=$(nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader) || [[ -z $GPUS ]]; then
    echo "gpu.sh: no CUDA here: nvidia-smi finds no GPU: ${GPUS:-}" >&2
    exit 3
  fi
fi
OUT=$(mkdir -p "${1:-gpu-results}" && cd "${1:-gpu-results}" && pwd) || exit
WORK=$(mktemp -d)
trap 'stop; rm -rf "$WORK"' EXIT
exec > >(tee "$OUT/gpu.log") 2>&1

# step NAME LIMIT COMMAND...: run it within LIMIT seconds and what is left of the budget.
step() {
  local name=$1 limit=$2 left=$((BUDGET - SECONDS)) start=$SECONDS status
  shift 2
  printf '\n== %s (%d s gone)\n$ %s\n' "$name" "$SECONDS" "$*"
  if ((left < 5)); then
    echo "-- left out: $BUDGET s are over"
    FAILED+=("$name (no time left)")
    return 1
  fi
  timeout --kill-after=5 "$((limit < left ? limit : left))" "$@"
  status=$?
  if ((status)); then
    echo "-- failed with status $status after $((SECONDS - start)) s"
    FAILED+=("$name (status $status)")
  fi
  return "$status"
}

stop() {
  if [[ -n $SERVER ]]; then
    kill "$SERVER" 2>/dev/null
    for _ in {1..100}; do kill -0 "$SERVER" 2>/dev/null && sleep 0.1; done
    kill -9 "$SERVER" 2>/dev/null
    SERVER=
  fi
}

# bundles PRECISION: NLU_MODELS for those that were exported.
bundles() {
  local found=() name
  for name in "${MODELS[@]}"; do
    [[ -f $WORK/$1/$name/bundle.json ]] && found+=("$name=$WORK/$1/$name")
  done
  (IFS=, && echo "${found[*]}")
}

# export_models PRECISION: all at once; each is compared with torch, and refused if it differs.
export_models() {
  local name pids=() left=$((BUDGET - SECONDS))
  printf '\n== exporting in %s (%d s gone)\n' "$1" "$SECONDS"
  for name in "${MODELS[@]}"; do
    timeout "$((left < 1 ? 1 : left < 90 ? left : 90))" "$PY" -m exporters "$WORK/checkpoints/$name" \
      --suite "demo/heads/$name/suite.yaml" --name "$name" --precision "$1" --device "$DEVICE" \
      --out "$WORK/$1" >"$OUT/export-$name-$1.log" 2>&1 &
    pids+=($!)
  done
  wait "${pids[@]}"
  for name in "${MODELS[@]}"; do
    [[ -f $WORK/$1/$name/bundle.json ]] || FAILED+=("export $name $1")
    tail -n 3 "$OUT/export-$name-$1.log"
  done
}

# serve PRECISION WORKERS THREADS: start a server and wait until each of its processes may be ready.
serve() {
  local served
  served=$(bundles "$1")
  [[ -n $served ]] || { FAILED+=("serve $1 (no bundle)"); return 1; }
  stop
  PORT=$("$PY" -c 'from benchmarks.servers import free_port; print(free_port())')
  printf '\n== serving %s with %s processes x %s threads (%d s gone)\n' "$1" "$2" "$3" "$SECONDS"
  BENTOML_HOME=$WORK/home NLU_MODELS=$served NLU_DEVICE=$DEVICE NLU_WORKERS=$2 NLU_THREADS=$3 \
    "$PY" -m bentoml serve service.app:NLU --host 127.0.0.1 --port "$PORT" >"$OUT/server-$1-$2x$3.log" 2>&1 &
  SERVER=$!
  # Processes answer in no order: one that is still loading shows in a few questions.
  step "ready: $1 $2x$3" 60 "$PY" - "http://127.0.0.1:$PORT/readyz" "$(($2 * 5))" <<'END' && return
import sys, time, urllib.request

url, wanted, ready = sys.argv[1], int(sys.argv[2]), 0
while ready < wanted:
    try:
        urllib.request.urlopen(url, timeout=5)
        ready += 1
    except OSError:
        ready = 0
    time.sleep(0.1)
END
  tail -n 20 "$OUT/server-$1-$2x$3.log"
  return 1
}
load() { # NAME ARGUMENTS...
  local name=$1
  shift
  step "load $name" 60 "$PY" -m benchmarks load --url "http://127.0.0.1:$PORT" --seconds "$SERVED" "$@" \
    --save "$OUT/load-$name.json"
}

peak() { # PRECISION WORKERS THREADS
  serve "$@" && load "$1-$2x$3-closed" --closed "$CALLERS"
}

at_70_percent() { # PRECISION WORKERS THREADS, of the server that peak has left running
  local rate
  rate=$("$PY" -c 'import json, sys; print(0.7 * json.load(open(sys.argv[1]))["found"]["answered_per_s"])' \
    "$OUT/load-$1-$2x$3-closed.json") && load "$1-$2x$3-open" --rate "$rate"
}

echo "${GPUS:-rehearsal on a CPU}"
PY=${VENV:-$WORK/venv}/bin/python
if [[ -z ${VENV:-} ]]; then
  index=()
  [[ -n ${WHEELS:-} ]] && index=(--no-index --find-links "$WHEELS")
  extras=$([[ $DEVICE == cuda ]] && echo gpu || echo cpu),export,bench
  step "virtual environment" 60 "${PYTHON:-python3}" -m venv "$WORK/venv" || exit 1
  step "install" 240 "$PY" -m pip install --quiet --disable-pip-version-check "${index[@]}" \
    -c requirements/constraints.txt -e ".[$extras]" || exit 1
fi
step "device" 30 "$PY" -c "from service.graph.device import require_device; require_device('$DEVICE')" || exit 1

step "checkpoints" 30 "$PY" -m demo "${MODELS[@]}" --out "$WORK/checkpoints" || exit 1
for precision in "${PRECISIONS[@]}"; do
  export_models "$precision"
done
step "parity with torch" 10 "$PY" - "$WORK" <<'END'
import json, pathlib, sys

print(f"{'bundle':<12}{'precision':<13}{'shapes':>7}{'logits within':>15}{'largest':>9}{'scores within':>15}")
for path in sorted(pathlib.Path(sys.argv[1]).glob("*/*/bundle.json")):
    found = json.loads(path.read_text(encoding="utf-8"))
    p = found["provenance"]["parity"]
    print(f"{found['name']:<12}{found['graph']['precision']:<13}{p['shapes']:>7}{p['max_logit_delta']:>15.1e}"
          f"{p['largest_logit']:>9.1f}{p['max_score_delta']:>15.1e}")
END

for precision in "${PRECISIONS[@]}"; do
  served=$(bundles "$precision")
  [[ -n $served ]] && IFS=, read -ra each <<<"$served" &&
    step "floor $precision" 90 "$PY" -m benchmarks limit "${each[@]}" --device "$DEVICE" "${FLOOR[@]}" \
      --save "$OUT/limit-$precision.json"
done

for precision in "${PRECISIONS[@]}"; do
  peak "$precision" 1 2 && at_70_percent "$precision" 1 2 &&
    step "offline $precision" 40 "$PY" -m benchmarks offline --url "http://127.0.0.1:$PORT" --models klue-ynat \
      --items "$JOB" --save "$OUT/offline-$precision.json"
done
best=${PRECISIONS[1]:-fp32}
peak "$best" 2 2
if [[ $DEVICE == cuda ]]; then
  peak "$best" 4 2
  peak "$best" 1 8
fi
stop

printf '\n== %d s, results in %s\n' "$SECONDS" "$OUT"
if ((${#FAILED[@]})); then
  printf 'failed: %s\n' "${FAILED[@]}"
  exit 1
fi
