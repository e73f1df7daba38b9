"""`pip install .` as people do it: into a fresh environment, then used from outside the tree."""

import os
import subprocess
import sys

import pytest

SOURCE = os.environ["TUTTI_SOURCE_DIRECTORY"]
SCRIPT = """
import numpy, tutti
comm = tutti.init()
assert comm.size == 3
print(comm.all_reduce(numpy.ones(2)))
"""


def clean_environment():
    hidden = ("PYTHONPATH", "TUTTI_TOOL", "TUTTI_SOURCE_DIRECTORY")
    return {name: value for name, value in os.environ.items() if name not in hidden}


def output_of(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, env=clean_environment(), **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The bin folder of an environment with the package; skips where pip cannot fetch what it needs."""
    folder = tmp_path_factory.mktemp("environment")
    output_of(sys.executable, "-m", "venv", folder)
    pip = os.path.join(folder, "bin", "pip")
    reached = subprocess.run([pip, "install", "--quiet", "numpy"], capture_output=True, text=True)
    if reached.returncode != 0:
        pytest.skip("pip cannot fetch packages here: " + reached.stderr[-300:])
    output_of(pip, "install", "--quiet", SOURCE)
    return os.path.join(folder, "bin")


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def test_the_command_and_the_package(installed, script, tmp_path):
    python, command = os.path.join(installed, "python"), os.path.join(installed, "tutti")
    said = output_of(command, "run", "-n", "3", "--", python, script, cwd=tmp_path)
    assert sorted(said.splitlines()) == [f"[{rank}] [3. 3.]" for rank in range(3)]
    version = output_of(python, "-c", "import tutti; print(tutti.__version__)", cwd=tmp_path).strip()
    assert version in output_of(command, "--version", cwd=tmp_path)
    assert version in output_of(python, "-m", "tutti", "--version", cwd=tmp_path)
    assert "ring" in output_of(command, "list", cwd=tmp_path)


def test_other_programs_can_be_built_with_it(installed, tmp_path):
    python = os.path.join(installed, "python")
    paths = output_of(python, "-c", "import tutti; print(tutti.include_dir()); print(tutti.library_dir())", cwd=tmp_path)
    include, library = paths.split()
    assert not include.startswith(SOURCE)
    source = tmp_path / "program.cc"
    source.write_text("#include <tutti/tutti.hpp>\nint main() { return tutti::init().size() - 1; }\n")
    output_of("c++", "-std=c++20", str(source), "-I", include, "-L", library, "-ltutti", f"-Wl,-rpath,{library}",
              "-o", str(tmp_path / "program"))
    output_of(str(tmp_path / "program"))


def test_the_package_holds_what_it_should_and_no_more(installed, tmp_path):
    python = os.path.join(installed, "python")
    listing = output_of(python, "-c", "import importlib.metadata as m; print(*m.files('tutti'), sep='\\n')", cwd=tmp_path)
    files = listing.split()
    for name in ("tutti/__init__.py", "tutti/__init__.pyi", "tutti/py.typed", "tutti/lib/libtutti.so",
                 "tutti/include/tutti/tutti.h", "tutti/include/tutti/tutti.hpp"):
        assert name in files
    others = [name for name in files if not name.startswith(("tutti/", "tutti-")) and not name.endswith("bin/tutti")]
    assert others == []


def test_under_torchrun(installed, script, tmp_path):
    torch = os.environ.get("TORCH_PYTHON", "")
    python = os.path.join(installed, "python")
    same = torch and output_of(torch, "-c", "import sys; print(*sys.version_info[:2])") == \
        output_of(python, "-c", "import sys; print(*sys.version_info[:2])")
    if not same:
        pytest.skip("TORCH_PYTHON names no PyTorch of this Python's version")
    site = output_of(python, "-c", "import sysconfig; print(sysconfig.get_path('platlib'))").strip()
    done = subprocess.run([torch, "-m", "torch.distributed.run", "--nproc-per-node=3", "--standalone", script],
                          capture_output=True, text=True, cwd=tmp_path, env={**clean_environment(), "PYTHONPATH": site})
    assert done.returncode == 0 and done.stdout.count("[3. 3.]") == 3, done.stderr
