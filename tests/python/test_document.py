"""The code of docs/python.md, from top to bottom, on four ranks; and what the page and the README name is there."""

import os
import re
import subprocess
import sys

import pytest
import tutti

SOURCE = os.environ["TUTTI_SOURCE_DIRECTORY"]
DOCUMENT = open(os.path.join(SOURCE, "docs", "python.md")).read()


def blocks_of(text):
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


@pytest.mark.parametrize("page, least", [("docs/python.md", 10), ("README.md", 1)])
def test_the_code_runs(tmp_path, page, least):
    blocks = blocks_of(open(os.path.join(SOURCE, page)).read())
    assert len(blocks) >= least
    script = tmp_path / "script.py"
    script.write_text("".join(blocks))
    done = subprocess.run([os.environ["TUTTI_TOOL"], "run", "-n", "4", "--", sys.executable, script],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_page_names_every_verb_and_error():
    for name in list(vars(tutti.Communicator)) + dir(tutti.Communicator):
        if not name.startswith("_") and name not in ("closed", "close", "last_algorithm", "tuned"):
            assert name.removesuffix("_v") in DOCUMENT, name
    for name in tutti.__all__:
        if name.endswith("Error"):
            assert name in DOCUMENT, name
