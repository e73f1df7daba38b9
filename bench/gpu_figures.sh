#!/bin/sh
# Builds what it takes, runs the tests and measures every figure that is asked of GPU memory, on the first GPU of this
# machine, and ends with a table of asked against seen:
#
#   bench/gpu_figures.sh [--within SECONDS] [WHAT...]
#
# WHAT: build, tests, rates, torch, steps, busy, tcp, table; all of them, in this order, where none is named.
# tests: make test-gpu. rates: calls, verbs and the kernel alone, in C++. torch: dist.all_reduce beside gloo. steps: a
# GPT under DDP. busy: all_reduce while the GPU has other work. tcp: through host memory, and what the same takes there
# alone. All of it ends within 480 seconds, or those given: what does not fit is cut short or left out, and named.
# What was said lies in OUT, or build/gpu_figures. TORCH_PYTHON (or python3) has PyTorch; without it its parts are
# left out. Where there is no GPU nothing is done, a sentence says so, and it is no failure.
set -u
cd "$(dirname "$0")/.."

usage="usage: bench/gpu_figures.sh [--within SECONDS] [build|tests|rates|torch|steps|busy|tcp|table]..."
within=480
if [ "${1:-}" = --within ]; then
  within=${2:-}
  case "$within" in '' | *[!0-9]*) echo "$usage" >&2; exit 2 ;; esac
  shift 2
fi
for what in "$@"; do
  case "$what" in build | tests | rates | torch | steps | busy | tcp | table) ;; *) echo "$usage" >&2; exit 2 ;; esac
done
wanted=${*:-build tests rates torch steps busy tcp table}
began_all=$(date +%s)
out=${OUT:-build/gpu_figures}
python=${TORCH_PYTHON:-python3}
tests=$(scripts/test-gpu.sh --list)
failed=""

wants() {
  case " $wanted " in *" $1 "*) return 0 ;; *) return 1 ;; esac
}
left() { echo $((within - ($(date +%s) - began_all))); }
run() { # SECONDS FILE COMMAND...
  limit=$1 file=$2
  shift 2
  seconds=$(left)
  if [ "$seconds" -lt 5 ]; then
    echo "== not run, no time is left: $*"
    failed="$failed; $* (not run)"
    return 1
  fi
  [ "$seconds" -gt "$limit" ] || limit=$seconds
  echo "== $*"
  began=$(date +%s)
  timeout "$limit" "$@" >"$out/$file" 2>&1
  ended=$?
  grep -v OMP_NUM_THREADS "$out/$file"
  echo "== ended with $ended" >>"$out/$file"
  echo "== $(($(date +%s) - began)) s$([ $ended != 124 ] || echo ', cut short')"
  [ $ended = 0 ] || failed="$failed; $*"
  return $ended
}
torch() { # SECONDS NAME ARGUMENTS...
  limit=$1 name=$2
  shift 2
  run "$limit" "$name.txt" env PYTHONPATH="$PWD/build/torch/lib" PYTHONUNBUFFERED=1 "$python" bench/torch_cuda.py \
    --json "$out/$name.json" "$@"
}

if ! { [ -e /dev/nvidiactl ] || [ -e /dev/dxg ] || [ -e /dev/nvhost-gpu ]; }; then
  if [ "$wanted" != table ]; then
    echo "gpu_figures: nothing is measured, this machine has no NVIDIA GPU"
    exit 0
  fi
fi
mkdir -p "$out"
out=$(cd "$out" && pwd)
if [ -z "${TUTTI_NVRTC:-}" ]; then
  beside=$("$python" -c 'import nvidia; print("\n".join(nvidia.__path__))' 2>/dev/null || true)
  # shellcheck disable=SC2086  # a folder for each word
  found=$(find $beside /usr/local/cuda/lib64 -name 'libnvrtc.so*' 2>/dev/null | head -n 1)
  [ -z "$found" ] || export TUTTI_NVRTC="$found"
fi

if wants build; then
  # What is missing for good the build says itself.
  run 300 build.txt env TUTTI_PROGRAMS="$tests device_path_test device_rates tutti_library" sh -c '
    scripts/bootstrap.sh build test || true
    scripts/configure.sh release build test bench && scripts/build.sh release $TUTTI_PROGRAMS'
fi
if "$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' >/dev/null 2>&1; then
  export TUTTI_INCLUDE="$PWD/include" TUTTI_LIBRARY="$PWD/build/lib"
  mkdir -p build/torch
  # shellcheck disable=SC2016  # for the inner shell
  if wants torch || wants busy || wants tcp || wants steps; then
    run 240 torch_build.txt sh -c 'made=$PWD/build/torch && cd bindings/torch && "$1" setup.py --quiet egg_info \
      --egg-base "$made" build --build-base "$made/objects" --build-lib "$made/lib"' build "$python"
  fi
  has_torch=yes
else
  echo "gpu_figures: what takes PyTorch is left out, $python has none that sees a GPU"
  has_torch=no
fi
if wants tests; then
  run 30 path.txt build/bin/device_path_test --gtest_brief=1
  run 150 tests.txt scripts/test-gpu.sh --gtest_brief=1
fi
if wants rates; then run 90 rates.txt env TUTTI_CUDA_DRIVER=libcuda.so.1 build/bin/device_rates; fi
if [ $has_torch = yes ]; then
  if wants torch; then
    torch 60 torch_2 -n 2 --most-mb 64 --rounds 3
    torch 60 torch_8 -n 8 --most-mb 64 --rounds 3
  fi
  if wants steps; then torch 90 steps -n 4 --steps 10; fi
  if wants busy; then
    for ranks in 2 4 8; do torch 40 busy_$ranks -n $ranks --busy; done
    torch 40 busy_products_4 -n 4 --busy products
  fi
  if wants tcp; then torch 60 tcp -n 2 --transport tcp --most-mb 64 --rounds 3; fi
fi
if wants tcp; then run 60 rates_tcp.txt env TUTTI_CUDA_DRIVER=libcuda.so.1 build/bin/device_rates tcp; fi
if wants table; then "$python" bench/gpu_table.py "$out" | tee "$out/table.txt"; fi
echo "== all of it: $(($(date +%s) - began_all)) s"
[ -z "$failed" ] || { echo "failed${failed}" >&2; exit 1; }
