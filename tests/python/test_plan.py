"""tutti.plan(): the same as the command says, for notebooks that sweep."""

import json
import os
import subprocess

import pytest

import tutti

JOB = dict(model="llama3-8b", cluster="dgx-h100:2", strategy="zero1", global_batch=64, seq=4096)


@pytest.fixture(autouse=True)
def tool_on_path(monkeypatch):
    monkeypatch.setenv("PATH", os.path.dirname(os.environ["TUTTI_TOOL"]) + os.pathsep + os.environ["PATH"])


def test_is_what_the_command_prints():
    words = "--model llama3-8b --cluster dgx-h100:2 --strategy zero1 --global-batch 64 --seq 4096 --json".split()
    printed = subprocess.run([os.environ["TUTTI_TOOL"], "plan", *words], capture_output=True, check=True).stdout
    assert tutti.plan(**JOB) == json.loads(printed)


def test_sweeps():
    tokens = [tutti.plan(**dict(JOB, cluster=f"dgx-h100:{hosts}"))["tokens_per_second"] for hosts in (1, 2, 4)]
    assert tokens == sorted(tokens)
    assert tutti.plan(**JOB, sp=False, tp=None)["strategy"] == "dp16.zero1"


def test_says_what_does_not_fit():
    planned = tutti.plan(**dict(JOB, model="llama3-70b", strategy="dp"))
    assert planned["fits"] is False
    assert planned["memory_bytes_per_gpu"] > 16 * 70e9


def test_refuses_with_the_remedy():
    with pytest.raises(tutti.InvalidArgumentError, match="did you mean llama3-8b"):
        tutti.plan(**dict(JOB, model="lama3-8b"))
    with pytest.raises(ValueError, match="nosuch"):
        tutti.plan(nosuch=1)
