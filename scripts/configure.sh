#!/bin/sh
# Configures one CMake preset quietly: scripts/configure.sh release
#
# Prints CMake's whole output only if it fails or warns; otherwise only our own lines, which say what was left out.
set -eu

preset=$1
launcher=""
if command -v ccache >/dev/null 2>&1; then launcher="-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"; fi

# The Python package goes along where a python has what it takes (scripts/python.sh).
python_options=""
python=$("$(dirname "$0")"/python.sh package)
if [ -n "$python" ]; then python_options="-DTUTTI_PYTHON=ON -DPython_EXECUTABLE=$python"; fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! cmake --preset "$preset" $launcher $python_options >"$log" 2>&1; then
  cat "$log" >&2
  echo "configure: the preset '$preset' failed; the lines above say why" >&2
  exit 1
fi
if grep -q '^CMake Warning' "$log"; then cat "$log" >&2; else grep '^-- Tutti' "$log" || true; fi
