"""Builds the extension against the PyTorch that is installed here and the libtutti of the tutti package.

TUTTI_INCLUDE and TUTTI_LIBRARY name the folders of tutti/tutti.h and libtutti.so instead, of a build of the repository
for instance.
"""

import os
import pathlib

import torch
from setuptools import setup
from setuptools.command.build_py import build_py
from torch.utils.cpp_extension import BuildExtension, CppExtension


def folders():
    include, library = os.environ.get("TUTTI_INCLUDE"), os.environ.get("TUTTI_LIBRARY")
    if include and library:
        return include, library, [os.path.abspath(library)]
    try:
        import tutti

        return tutti.include_dir(), tutti.library_dir(), []
    except (ImportError, AttributeError):
        raise SystemExit(
            "tutti-torch: the package tutti is not installed here; run `pip install .` in the root of the repository "
            "first, or set TUTTI_INCLUDE and TUTTI_LIBRARY to the folders of tutti/tutti.h and libtutti.so"
        )


SOURCES = [
    "backend/allocator.cc",
    "backend/backend.cc",
    "backend/checks.cc",
    "backend/collectives.cc",
    "backend/errors.cc",
    "backend/group.cc",
    "backend/messages.cc",
    "backend/module.cc",
    "backend/monitored_barrier.cc",
    "backend/moving.cc",
    "backend/pool.cc",
    "backend/profile.cc",
    "backend/quantised.cc",
    "backend/sparse.cc",
    "backend/store.cc",
    "backend/tensors.cc",
    "backend/work.cc",
    "backend/devices.cc",
]


def together():
    """One file that includes all sources: most of the time goes into PyTorch's headers, and so they are read once."""
    path = pathlib.Path("build/together.cc")
    text = "".join(f'#include "../{source}"\n' for source in SOURCES)
    path.parent.mkdir(exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
    return str(path)


include_folder, library_folder, run_paths = folders()

extension = CppExtension(
    "tutti.torch._backend",
    sources=[together()],
    include_dirs=[str(include_folder), str(pathlib.Path(__file__).parent.resolve())],
    library_dirs=[str(library_folder)],
    libraries=["tutti"],
    define_macros=[("TUTTI_TORCH_VERSION", f'"{torch.__version__}"')],
    extra_compile_args=["-std=c++20", "-O2", "-g0", "-fvisibility=hidden", "-Wall", "-Wno-sign-compare"],
    # libtutti.so lies in tutti/lib, one folder up from tutti/torch. A C++ library that is linked in because the machine
    # has no shared one stays inside: libtutti.so must not find parts of it here.
    extra_link_args=["-Wl,-rpath,$ORIGIN/../lib", "-Wl,--exclude-libs,ALL"] + [f"-Wl,-rpath,{path}" for path in run_paths],
)


class BuildWithVersion(build_py):
    """Leaves a note of the PyTorch it was built for, which can be read without loading the extension."""

    def run(self):
        super().run()
        note = pathlib.Path(self.build_lib) / "tutti" / "torch" / "_built.py"
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(f'TORCH_VERSION = "{torch.__version__}"\n')


setup(ext_modules=[extension], cmdclass={"build_ext": BuildExtension, "build_py": BuildWithVersion})
