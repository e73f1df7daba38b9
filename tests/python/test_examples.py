"""The examples as people run them: on NumPy, and on torch's backends where there is a PyTorch (TORCH_PYTHON)."""

import os
import subprocess
import sys

import pytest

EXAMPLES = os.path.join(os.environ["TUTTI_SOURCE_DIRECTORY"], "examples", "python")
TOOL = os.environ["TUTTI_TOOL"]
TORCH = os.environ.get("TORCH_PYTHON", "")
LINES = {
    "argmax": "the largest of 4 x 4096 values is 1000, at rank 2, index 102\n",
    "mean": "ranks: 4, values: 1000000, mean 1e9 + 4.500000, variance 8.250000\n",
    "ring_from_send_recv": "a ring of 6 steps on 4 ranks gives what all_reduce gives\n",
    "softmax": "probabilities add up to 1.000000000000",
    "cheatsheet": "barrier: all 4 ranks were here, and every picture is what it should be\n",
}


def launched(python, name, *arguments, launcher=None):
    launcher = launcher or [TOOL, "run", "-n", "4", "--no-prefix", "--", python]
    command = [*launcher, os.path.join(EXAMPLES, name + ".py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=240)


@pytest.mark.parametrize("name", LINES)
def test_numpy(name):
    done = launched(sys.executable, name)
    assert done.returncode == 0 and LINES[name] in done.stdout, done.stdout + done.stderr


def test_every_example_is_here():
    programs = {name[:-3] for name in os.listdir(EXAMPLES) if name.endswith(".py")}
    assert programs - {"backends", "sheet", "gpu_cupy"} == set(LINES)


def test_cupy_or_a_sentence_why_not():
    done = launched(sys.executable, "gpu_cupy")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "everywhere, by " in done.stdout or "skipped: " in done.stdout


def test_the_cheat_sheet_draws():
    done = launched(sys.executable, "cheatsheet")
    assert "  rank 1  │ B0 │ B1 │ B2 │ B3 │     │ ABCD1 │\n" in done.stdout


def test_a_wrong_result_is_seen(tmp_path):
    source = open(os.path.join(EXAMPLES, "mean.py")).read()
    assert "% 10\n" in source
    (tmp_path / "mean.py").write_text(source.replace("% 10\n", "% 9\n"))
    (tmp_path / "backends.py").write_text(open(os.path.join(EXAMPLES, "backends.py")).read())
    done = subprocess.run([TOOL, "run", "-n", "2", "--no-prefix", "--", sys.executable, tmp_path / "mean.py"],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode != 0 and "WRONG" in done.stdout


@pytest.mark.skipif(not TORCH, reason="TORCH_PYTHON names no python with PyTorch")
@pytest.mark.parametrize("name", LINES)
def test_gloo(name):
    done = launched(TORCH, name, "--backend", "gloo")
    assert done.returncode == 0 and LINES[name] in done.stdout, done.stdout + done.stderr


def has_torch_backend():
    return bool(TORCH) and subprocess.run([TORCH, "-c", "import tutti.torch"], capture_output=True).returncode == 0


@pytest.mark.skipif(not has_torch_backend(), reason="TORCH_PYTHON names no python with tutti.torch")
@pytest.mark.parametrize("name", LINES)
def test_torch_backend(name):
    done = launched(TORCH, name, "--backend", "tutti")
    assert done.returncode == 0 and LINES[name] in done.stdout, done.stdout + done.stderr


@pytest.mark.skipif(not TORCH, reason="TORCH_PYTHON names no python with PyTorch")
def test_torchrun():
    launcher = [TORCH, "-m", "torch.distributed.run", "--nproc-per-node=4", "--standalone"]
    if subprocess.run([TORCH, "-c", "import tutti, numpy"], capture_output=True).returncode != 0:
        pytest.skip("the package of this build is for another Python than TORCH_PYTHON")
    done = launched(TORCH, "softmax", launcher=launcher)
    assert done.returncode == 0 and LINES["softmax"] in done.stdout, done.stdout + done.stderr
