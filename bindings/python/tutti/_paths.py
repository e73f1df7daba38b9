"""Where the package keeps what other programs are built with."""

import os

_HERE = os.path.dirname(os.path.abspath(__file__))


def include_dir():
    """The folder with tutti/tutti.h and tutti/tutti.hpp, for a compiler's -I."""
    return os.path.join(_HERE, "include")


def library_dir():
    """The folder with libtutti.so, for a linker's -L and -rpath."""
    return os.path.join(_HERE, "lib")
