#!/bin/sh
# Builds the tests of device memory and runs them on the first GPU of this machine: scripts/test-gpu.sh [gtest options]
# With --list it only names them.
#
# They are the tests that `make test` runs over a driver without a device. Where there is no GPU nothing is built, a
# sentence says so, and it is no failure. NVRTC, which compiles the kernels, is looked for beside PyTorch where the
# loader does not find it; TUTTI_NVRTC names another. Where TORCH_PYTHON (or python3) has a PyTorch that sees the GPU,
# the backend's tests on it follow.
set -eu
cd "$(dirname "$0")/.."

# Those of tests/device that ask nothing but what a real driver does.
programs="staging_test device_calls_test device_launch_test held_streams_test device_verbs_test device_tune_test own_operators_test"
if [ "${1:-}" = --list ]; then
  echo "$programs"
  exit 0
fi

if [ ! -e /dev/nvidiactl ] && [ ! -e /dev/dxg ] && [ ! -e /dev/nvhost-gpu ]; then
  echo "test-gpu: skipped, this machine has no NVIDIA GPU; make test runs the same tests over a driver without a device"
  exit 0
fi

scripts/bootstrap.sh build test
scripts/configure.sh release build test
# shellcheck disable=SC2086  # one word for each program
scripts/build.sh release $programs

if [ -z "${TUTTI_NVRTC:-}" ] && ! ldconfig -p 2>/dev/null | grep -q 'libnvrtc\.so'; then
  beside=$(python3 -c 'import nvidia; print("\n".join(nvidia.__path__))' 2>/dev/null || true)
  found=$(find ${beside:+$beside} /usr/local/cuda/lib64 -name 'libnvrtc.so*' 2>/dev/null | head -n 1 || true)
  if [ -n "$found" ]; then export TUTTI_NVRTC="$found"; fi
fi

failed=""
for program in $programs; do
  echo "== $program"
  TUTTI_TEST_GPU=1 timeout 900 "build/bin/$program" "$@" || failed="$failed $program"
done
if "${TORCH_PYTHON:-python3}" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' >/dev/null 2>&1; then
  echo "== tests/torch/test_cuda.py"
  scripts/build.sh release tutti_library
  timeout 1200 tests/torch/run.sh "$PWD/build" test_cuda.py || failed="$failed test_cuda.py"
else
  echo "test-gpu: the tests of PyTorch are skipped, ${TORCH_PYTHON:-python3} has none that sees a GPU"
fi
[ -z "$failed" ] || { echo "test-gpu: failed:$failed" >&2; exit 1; }
