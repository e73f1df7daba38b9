#!/bin/sh
# Prints a python that has PyTorch: TORCH_PYTHON, python3, or the one that `scripts/torch_python.sh install` has put into
# a virtual environment of its own, outside the tree. Prints nothing where there is none.
set -eu

home="${XDG_CACHE_HOME:-$HOME/.cache}/tutti/torch"

has_torch() { "$1" -c 'import torch.distributed' >/dev/null 2>&1; }

for python in "${TORCH_PYTHON:-}" python3 "$home/bin/python"; do
  if [ -n "$python" ] && command -v "$python" >/dev/null 2>&1 && has_torch "$python"; then
    command -v "$python"
    exit 0
  fi
done
[ "${1:-}" = install ] || exit 0

echo "torch: installing PyTorch into $home (some GB, once)" >&2
python3 -m venv "$home" >&2
"$home/bin/pip" install --quiet torch numpy expecttest >&2
echo "$home/bin/python"
