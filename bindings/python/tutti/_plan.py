"""tutti.plan(): what a training job says, costs and is bound by, before it is launched."""

import json
import subprocess

from ._errors import Error, InvalidArgumentError, UnsupportedError
from ._paths import MISSING_COMMAND, command

_FITS, _USAGE, _DOES_NOT_FIT = 0, 2, 3


def _word(value):
    return str(int(value)) if isinstance(value, bool) else str(value)


def plan(**settings):
    """The plan of a job as a dictionary, what `tutti plan --json` prints; settings are that command's options.

        tutti.plan(model="llama3-8b", cluster="dgx-h100:8", strategy="zero3", global_batch=1024, seq=8192)["mfu"]

    A job that does not fit into memory is planned as well: see its "fits".
    """
    found = command()
    if found is None:
        raise UnsupportedError(MISSING_COMMAND)
    words = [found, "plan", "--json"]
    for name, value in settings.items():
        if value is not None:
            words += ["--" + name.replace("_", "-"), _word(value)]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    if ended.returncode in (_FITS, _DOES_NOT_FIT):
        return json.loads(ended.stdout)
    what = ended.stderr.strip().split("\n")[0]
    raise (InvalidArgumentError if ended.returncode == _USAGE else Error)(what)
