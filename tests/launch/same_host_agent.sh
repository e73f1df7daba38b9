#!/bin/sh
# In place of ssh for mpirun: runs the command here, whatever the host. So two names become two hosts to Open MPI.
# Each of them has a folder of its own under TMPDIR, because daemons of one host would fight for their session folder.
TMPDIR=${TMPDIR:-/tmp}/$1
export TMPDIR
mkdir -p "$TMPDIR"
shift
# The command is one of Open MPI's daemons; it is to end with mpirun, however that ends.
exec setpriv --pdeathsig KILL sh -c "exec $*"
