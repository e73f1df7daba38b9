"""`python -m tutti ...` is the `tutti` command that was installed with this package."""

import importlib.metadata
import os
import shutil
import sys


def _command():
    try:
        for file in importlib.metadata.files("tutti") or ():
            if file.name == "tutti" and file.parent.name in ("bin", "Scripts"):
                return os.path.realpath(file.locate())
    except importlib.metadata.PackageNotFoundError:
        pass  # used from a build folder
    return shutil.which("tutti")


command = _command()
if command is None:
    sys.exit("tutti: this package has no tutti command: it was built without CLI11 or fmt; see docs/python.md")
os.execv(command, [command, *sys.argv[1:]])
