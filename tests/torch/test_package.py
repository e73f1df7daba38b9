"""The package: found by name alone, under torchrun, in profiles; refuses a PyTorch that it was not built for."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import textwrap

import pytest
import torch
import torch.distributed as dist

import tutti.torch


def run(script, *arguments, environment=None):
    command = [sys.executable, *arguments]
    done = subprocess.run(
        command if script is None else [*command, "-c", textwrap.dedent(script)],
        env={**os.environ, **(environment or {})}, capture_output=True, text=True, timeout=300,
    )
    return done.returncode, done.stdout + done.stderr


def test_torchrun(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            """
            import torch, torch.distributed as dist
            import tutti.torch
            dist.init_process_group("tutti")
            tensor = torch.full((3,), dist.get_rank() + 1.0)
            dist.all_reduce(tensor)
            assert tensor.tolist() == [6.0] * 3
            dist.barrier()
            dist.destroy_process_group()
            dist.init_process_group("cpu:tutti")
            dist.all_reduce(tensor)
            print(f"rank {dist.get_rank()} {int(tensor[0])}\\n", end="")  # at once: ranks share the pipe
            """  # and ends without destroy_process_group
        )
    )
    code, words = run(None, "-m", "torch.distributed.run", "--nproc-per-node", "3", str(program))
    assert code == 0 and sorted(line for line in words.splitlines() if line.startswith("rank")) == [
        f"rank {r} 18" for r in range(3)
    ], words


def test_init_method_of_a_file(tmp_path):
    code, words = run(
        f"""
        import torch, torch.distributed as dist, torch.multiprocessing as mp, tutti.torch
        def main(rank):
            dist.init_process_group("tutti", init_method="file://{tmp_path}/store", rank=rank, world_size=2)
            tensor = torch.ones(1)
            dist.all_reduce(tensor)
            assert tensor == 2
            dist.destroy_process_group()
        mp.start_processes(main, nprocs=2, start_method="fork")
        """
    )
    assert code == 0, words


def test_another_torch_is_refused(tmp_path):
    package = pathlib.Path(tutti.torch.__file__).parent
    copy = tmp_path / "tutti" / "torch"
    shutil.copytree(package, copy)
    (copy / "_built.py").write_text('TORCH_VERSION = "1.0.0"\n')
    code, words = run("import tutti.torch", environment={"PYTHONPATH": str(tmp_path)})
    assert code != 0
    assert "ImportError: tutti-torch was built for PyTorch 1.0.0, but this is PyTorch " + torch.__version__ in words
    assert "pip install --no-build-isolation" in words


def test_autoload_is_lazy_and_never_raises():
    code, words = run(
        """
        import sys, torch.distributed as dist
        import tutti_torch_autoload
        tutti_torch_autoload.register()
        tutti_torch_autoload.register()
        assert "tutti.torch" not in sys.modules and "tutti" in dist.Backend.backend_list
        assert dist.Backend.default_device_backend_map["cpu"] == "gloo"
        store = dist.HashStore()
        dist.init_process_group("tutti", store=store, rank=0, world_size=1)
        assert dist.get_backend() == "tutti" and "tutti.torch" in sys.modules
        dist.destroy_process_group()
        dist.Backend.register_backend = None
        dist.Backend._plugins.clear()
        tutti_torch_autoload.register()
        """
    )
    assert code == 0, words


def profiled(rank, size, folder):
    from torch.profiler import ProfilerActivity, profile

    tensor = torch.ones(1000)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        dist.all_reduce(tensor)
        dist.all_reduce(tensor, async_op=True).wait()
        dist.all_gather_into_tensor(torch.empty(1000 * size), tensor)
        dist.barrier()
        if rank == 0:
            dist.send(tensor, 1)
        elif rank == 1:
            dist.recv(tensor, 0)
    rows = {row.key: row for row in profiler.key_averages(group_by_input_shape=True)}
    counts = {row.key: row.count for row in profiler.key_averages()}
    assert counts["tutti:all_reduce"] == 2 and counts["tutti:all_gather_into_tensor"] == 1, counts
    assert counts["tutti:barrier"] == 1 and counts["tutti:send" if rank == 0 else "tutti:recv"] == 1
    assert any([1000] in shapes for shapes in [rows["tutti:all_reduce"].input_shapes]), rows["tutti:all_reduce"]
    records = [event for event in profiler.events() if event.name == "record_param_comms"]
    assert len(records) == 5
    # Bytes, in the events and in a trace for people.
    sizes = {event.name: event.kwinputs["bytes"] for event in profiler.events() if event.name.startswith("tutti:")}
    assert sizes["tutti:all_reduce"] == 4000 and sizes["tutti:all_gather_into_tensor"] == 4000 * size, sizes
    assert sizes["tutti:barrier"] == 0 and sizes["tutti:send" if rank == 0 else "tutti:recv"] == 4000
    path = pathlib.Path(folder) / f"{rank}.json"
    profiler.export_chrome_trace(str(path))
    traced = {event["name"]: event["args"] for event in json.loads(path.read_text())["traceEvents"] if "args" in event}
    assert int(traced["tutti:all_reduce"]["bytes"]) == 4000, traced["tutti:all_reduce"]


def test_profiler(ranks, tmp_path):
    ranks(2, profiled, str(tmp_path))


def untuned(rank, size):
    assert tutti.torch.tuned() is False and tutti.torch.tuned(dist.new_group([0, 1])) is False
    other = dist.new_group(backend="gloo")
    with pytest.raises(ValueError, match="backend for CPU tensors is gloo, not tutti"):
        tutti.torch.tuned(other)


def test_tells_its_costs(new_ranks, monkeypatch):
    monkeypatch.setenv("TUTTI_COSTS", "built-in")
    new_ranks(2, untuned)


def test_empty_wants_a_group():
    with pytest.raises(ValueError, match="call torch.distributed.init_process_group first"):
        tutti.torch.empty(3)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        with pytest.raises(ValueError, match="backend for CPU tensors is gloo, not tutti"):
            tutti.torch.empty(3)
    finally:
        dist.destroy_process_group()


def fake_module(folder, path, text):
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_text(textwrap.dedent(text))


@pytest.mark.parametrize("version, taken", [("65.5.0", "fetched"), ("70.1.0", "here")])
def test_a_setuptools_too_old_for_wheels_is_replaced_for_the_build(tmp_path, version, taken):
    fake_module(tmp_path, f"setuptools-{version}.dist-info/METADATA", f"Name: setuptools\nVersion: {version}\n")
    fake_module(tmp_path, "setuptools/__init__.py", "")
    fake_module(tmp_path, "setuptools/build_meta.py", "def build_wheel(): return 'here'\n")
    fake_module(tmp_path, "pip/__init__.py", "")
    fake_module(
        tmp_path,
        "pip/__main__.py",
        """
        import pathlib, sys
        package = pathlib.Path(sys.argv[sys.argv.index("--target") + 1]) / "setuptools"
        package.mkdir()
        (package / "__init__.py").touch()
        (package / "build_meta.py").write_text("def build_wheel(): return 'fetched'")
        assert sys.argv[-1] == "setuptools>=70.1"
        """,
    )
    backend = pathlib.Path(__file__).parents[2] / "bindings" / "torch"
    code, words = run(
        "import wheels; print(wheels.build_wheel())", "-S", environment={"PYTHONPATH": f"{tmp_path}:{backend}"}
    )
    assert code == 0 and words.strip() == taken, words
