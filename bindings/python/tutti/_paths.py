"""Where the package keeps what other programs are built with, and its command."""

import importlib.metadata
import os
import shutil

_HERE = os.path.dirname(os.path.abspath(__file__))

MISSING_COMMAND = "this package has no tutti command: it was built without CLI11 or fmt; see docs/python.md"


def include_dir():
    """The folder with tutti/tutti.h and tutti/tutti.hpp, for a compiler's -I."""
    return os.path.join(_HERE, "include")


def library_dir():
    """The folder with libtutti.so, for a linker's -L and -rpath."""
    return os.path.join(_HERE, "lib")


def command():
    """The path of the `tutti` command that was installed with this package, or else is on PATH; None without one."""
    try:
        for file in importlib.metadata.files("tutti") or ():
            if file.name == "tutti" and file.parent.name in ("bin", "Scripts"):
                return os.path.realpath(file.locate())
    except importlib.metadata.PackageNotFoundError:
        pass  # used from a build folder
    return shutil.which("tutti")
