#!/bin/sh
# Runs a file of this folder, test_* by pytest and others as programs, with the backend built for the PyTorch of
# TORCH_PYTHON (or python3) and the library of this build: run.sh BUILD_FOLDER FILE ARGUMENTS...
#
# What is made lies in BUILD_FOLDER/torch: the extension, and an environment with pytest and expecttest (which
# PyTorch's own tests want) where that PyTorch has none.
# Ends with 77, and says why, where something is missing that only the user can bring.
set -eu

build=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
source=$here/../../bindings/torch
made=$build/torch
python=${TORCH_PYTHON:-python3}

if ! "$python" -c 'import torch.distributed' >/dev/null 2>&1; then
  echo "skipped: $python has no torch; set TORCH_PYTHON to a Python that has"
  exit 77
fi
mkdir -p "$made"
# Tests of one build may run at once; what they need is made by the first.
exec 9>"$made/lock"
flock 9
if ! "$python" -c 'import pytest, expecttest' >/dev/null 2>&1; then
  if ! "$made/environment/bin/python" -c 'import pytest, expecttest' >/dev/null 2>&1; then
    "$python" -m venv "$made/environment"
    "$python" -c 'import site; print("\n".join(site.getsitepackages()))' >"$("$made/environment/bin/python" -c \
      'import site; print(site.getsitepackages()[0])')/torch.pth"
    if ! "$made/environment/bin/python" -m pip install --quiet pytest expecttest; then
      echo "skipped: $python lacks pytest or expecttest, and pip could not install them into $made/environment"
      exit 77
    fi
  fi
  python=$made/environment/bin/python
fi
(
  cd "$source"
  export TUTTI_INCLUDE="$source/../../include" TUTTI_LIBRARY="$build/lib"
  # Ninja, where it is there, compiles what has changed.
  "$python" setup.py --quiet egg_info --egg-base "$made" build --build-base "$made/objects" --build-lib "$made/lib" \
    >"$made/build.log" 2>&1 || { cat "$made/build.log"; exit 1; }
)
flock -u 9
export TUTTI_TOOL="$build/bin/tutti"
export PYTHONPATH="$made/lib${PYTHONPATH:+:$PYTHONPATH}" PYTHONDONTWRITEBYTECODE=1
cd "$here"
case $1 in
  test_*) exec "$python" -m pytest -q -p no:cacheprovider "$@" ;;
  *) exec "$python" "$@" ;;
esac
