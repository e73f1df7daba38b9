"""What pip builds with: setuptools, and a newer one for the time of the build where the one here cannot make wheels.

Without build isolation pip takes the setuptools of the environment. A new virtual environment of Python 3.11 or older has
one that makes wheels only beside the package `wheel`, which is not there.
"""

import importlib.metadata
import subprocess
import sys
import tempfile

NEWER = "setuptools>=70.1"


def version_of(package):
    try:
        return tuple(int(part) for part in importlib.metadata.version(package).split(".")[:2])
    except importlib.metadata.PackageNotFoundError:
        return None


def makes_wheels():
    return version_of("wheel") is not None or (version_of("setuptools") or (0, 0)) >= (70, 1)


def fetch_newer(folder):
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", folder, NEWER]
    if subprocess.run(command).returncode != 0:
        raise SystemExit(
            f"tutti-torch: the setuptools of this environment cannot make a wheel, and pip could not fetch {NEWER}; "
            f"run `pip install '{NEWER}'` first"
        )
    sys.path.insert(0, folder)


if not makes_wheels():
    _folder = tempfile.TemporaryDirectory(prefix="tutti_torch_")  # goes with the process
    fetch_newer(_folder.name)

from setuptools.build_meta import *  # noqa: E402, F401, F403
