#!/bin/sh
# Prints a python for a purpose: scripts/python.sh package|torch|nvrtc [install]
#
#   package  can build and test the Python package: TUTTI_PYTHON, or one of our own
#   torch    has PyTorch: TORCH_PYTHON, python3, or one of our own
#   nvrtc    has NVRTC, the compiler of CUDA kernels, which needs no GPU: NVRTC_PYTHON, or one of our own
#
# One of our own is a virtual environment outside the tree, which `install` makes where no other python serves; it ends
# with 1 where that cannot be done. Without `install` nothing is printed where there is none.
set -eu

case "${1:-}" in
  package)
    variable=TUTTI_PYTHON chosen=${TUTTI_PYTHON:-} others="" home=python size=""
    modules="ml_dtypes, nanobind, numpy, pytest, scikit_build_core"
    packages="numpy ml_dtypes nanobind scikit-build-core pytest ninja" ;;
  torch)
    variable=TORCH_PYTHON chosen=${TORCH_PYTHON:-} others=python3 home=torch size="some GB, "
    modules="torch.distributed"
    packages="torch numpy pytest expecttest" ;;
  nvrtc)
    variable=NVRTC_PYTHON chosen=${NVRTC_PYTHON:-} others="" home=nvrtc size="90 MB, "
    modules="nvidia.cuda_nvrtc"
    packages="nvidia-cuda-nvrtc-cu12" ;;
  *) echo "usage: scripts/python.sh package|torch|nvrtc [install]" >&2; exit 2 ;;
esac
home="${XDG_CACHE_HOME:-$HOME/.cache}/tutti/$home"

serves() { [ -n "$1" ] && command -v "$1" >/dev/null 2>&1 && "$1" -c "import $modules" >/dev/null 2>&1; }

if [ -n "$chosen" ] && ! serves "$chosen"; then
  echo "python: $variable is $chosen, which cannot import $modules; looking elsewhere" >&2
  chosen=""
fi
for python in "$chosen" $others "$home/bin/python"; do
  if serves "$python"; then
    command -v "$python"
    exit 0
  fi
done
[ "${2:-}" = install ] || exit 0

echo "python: installing $packages into $home (${size}once)" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if python3 -m venv "$home" >"$log" 2>&1 && "$home/bin/pip" install --quiet $packages >>"$log" 2>&1 &&
   serves "$home/bin/python"; then
  echo "$home/bin/python"
else
  tail -n 3 "$log" >&2
  echo "python: that failed; the lines above say why" >&2
  exit 1
fi
