#!/bin/sh
# Prints a python that can build and test the Python package: TUTTI_PYTHON, or the one that `scripts/python_env.sh install`
# has put into a virtual environment of its own, outside the tree. Prints nothing where there is none.
set -eu

home="${XDG_CACHE_HOME:-$HOME/.cache}/tutti/python"

is_complete() { "$1" -c 'import ml_dtypes, nanobind, numpy, pytest, scikit_build_core' >/dev/null 2>&1; }

for python in "${TUTTI_PYTHON:-}" "$home/bin/python"; do
  if [ -n "$python" ] && command -v "$python" >/dev/null 2>&1 && is_complete "$python"; then
    command -v "$python"
    exit 0
  fi
done
[ "${1:-}" = install ] || exit 0

echo "python: installing NumPy, nanobind, scikit-build-core and pytest into $home (once)" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if python3 -m venv "$home" >"$log" 2>&1 &&
   "$home/bin/pip" install --quiet numpy ml_dtypes nanobind scikit-build-core pytest ninja >>"$log" 2>&1; then
  echo "$home/bin/python"
else
  tail -n 3 "$log" >&2
  echo "python: that failed; the Python package and its tests are left out" >&2
fi
