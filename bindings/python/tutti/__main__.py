"""`python -m tutti ...` is the `tutti` command that was installed with this package."""

import os
import sys

from ._paths import MISSING_COMMAND, command

found = command()
if found is None:
    sys.exit("tutti: " + MISSING_COMMAND)
os.execv(found, [found, *sys.argv[1:]])
