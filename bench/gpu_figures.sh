#!/bin/sh
# The tests and the figures of docs/gpu.md on the first GPU of this machine, from programs that are built already:
#
#   bench/gpu_figures.sh [WHAT...]     tests, rates, torch, busy, tcp, steps; all of them where none is named
#
# tests: those of tests/device, on the GPU. rates: calls and verbs in C++. torch: dist.all_reduce beside gloo. busy:
# the same while the GPU has other work. tcp: through host memory, and what the same takes there alone. steps: a GPT
# under DDP. Built must be the programs of tests/device, device_rates and libtutti (TUTTI_BENCH=ON);
# TORCH_PYTHON (or python3) has PyTorch. Every part says how long it took; one that fails is named, and the others
# follow.
set -u
cd "$(dirname "$0")/.."

wanted=${*:-tests rates torch busy tcp steps}
python=${TORCH_PYTHON:-python3}
if [ -z "${TUTTI_NVRTC:-}" ]; then
  beside=$("$python" -c 'import nvidia; print("\n".join(nvidia.__path__))' 2>/dev/null || true)
  # shellcheck disable=SC2086  # a folder for each word
  found=$(find $beside /usr/local/cuda/lib64 -name 'libnvrtc.so*' 2>/dev/null | head -n 1)
  [ -z "$found" ] || export TUTTI_NVRTC="$found"
fi
failed=""
said=$(mktemp)
trap 'rm -f "$said"' EXIT

run() { # SECONDS COMMAND...
  limit=$1
  shift
  echo "== $*"
  began=$(date +%s)
  timeout "$limit" "$@" >"$said" 2>&1 || failed="$failed; $*"
  grep -v OMP_NUM_THREADS "$said"
  echo "== $(($(date +%s) - began)) s"
}
torch() { # SECONDS ARGUMENTS...
  limit=$1
  shift
  run "$limit" env PYTHONPATH="$PWD/build/torch/lib" PYTHONUNBUFFERED=1 "$python" bench/torch_cuda.py "$@"
}
wants() {
  case " $wanted " in *" $1 "*) return 0 ;; *) return 1 ;; esac
}

if wants torch || wants busy || wants tcp || wants steps; then
  mkdir -p build/torch
  export TUTTI_INCLUDE="$PWD/include" TUTTI_LIBRARY="$PWD/build/lib"
  # shellcheck disable=SC2016  # for the inner shell
  run 240 sh -c 'made=$PWD/build/torch && cd bindings/torch && "$1" setup.py --quiet egg_info --egg-base "$made" \
    build --build-base "$made/objects" --build-lib "$made/lib" >"$made/build.log" 2>&1 ||
    { cat "$made/build.log"; exit 1; }' build "$python"
fi
if wants tests; then
  for program in staging_test device_calls_test device_launch_test held_streams_test device_verbs_test; do
    run 120 env TUTTI_TEST_GPU=1 "build/bin/$program" --gtest_brief=1
  done
fi
if wants rates; then run 90 env TUTTI_CUDA_DRIVER=libcuda.so.1 build/bin/device_rates; fi
if wants torch; then
  torch 60 -n 2 --most-mb 64
  torch 60 -n 8 --most-mb 64 --rounds 3
fi
if wants busy; then
  for ranks in 2 4 8; do torch 40 -n $ranks --busy; done
  torch 40 -n 4 --busy products
fi
if wants tcp; then
  torch 60 -n 2 --transport tcp --most-mb 64 --rounds 3
  run 60 env TUTTI_CUDA_DRIVER=libcuda.so.1 build/bin/device_rates tcp
fi
if wants steps; then torch 90 -n 4 --steps 10; fi
[ -z "$failed" ] || { echo "failed${failed}" >&2; exit 1; }
