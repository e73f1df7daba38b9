#!/bin/bash
# Runs COMMAND inside a Slurm of one node that lives only as long as COMMAND does.
#
#   slurm_one_node.sh COMMAND [ARGUMENT...]
#
# Starts munged, slurmctld and slurmd with keys, sockets, ports and state of their own in a temporary folder, so neither a
# Slurm of the machine nor a second run of this script is disturbed; waits until the node is idle; runs COMMAND with
# SLURM_CONF set and srun on its PATH; stops the three daemons and removes the folder, however it ends.
# Exits with COMMAND's status, or with 77 and a printed reason where such a Slurm cannot run. The node claims 16 CPUs,
# whatever the machine has, so that a test can start more ranks than there are cores.
set -u

PATH=$PATH:/usr/sbin:/sbin
seconds_to_wait=${TUTTI_SLURM_WAIT_S:-30}

cannot_run() {
  echo "slurm_one_node: skipped: $1"
  exit 77
}

[ $# -gt 0 ] || { echo "usage: slurm_one_node.sh COMMAND [ARGUMENT...]" >&2; exit 2; }
[ "$(id -u)" = 0 ] || cannot_run "slurmd and munged have to be started by root"
for program in munged mungekey munge slurmctld slurmd srun sinfo; do
  command -v "$program" >/dev/null || cannot_run "$program is not installed"
done

folder=$(mktemp -d "${TMPDIR:-/tmp}/tutti_slurm.XXXXXX") || cannot_run "no temporary folder"
chmod 755 "$folder"
daemons=()
running=()  # the last started first

# Everything that was started inside knows SLURM_CONF: the command, srun, slurmstepd and the tasks of steps.
end_all_inside() {
  local environment pid
  for environment in /proc/[0-9]*/environ; do
    pid=${environment#/proc/}
    pid=${pid%/environ}
    [ "$pid" = $$ ] && continue
    if { tr '\0' '\n' <"$environment"; } 2>/dev/null | grep -qxF "SLURM_CONF=$folder/slurm.conf"; then
      kill -KILL "$pid" 2>/dev/null
    fi
  done
}

# TERM, and KILL where that does not help within five seconds; one after the other, because slurmctld ends slowly
# without munged.
end() {
  local i pid
  for pid in "$@"; do
    kill -TERM "$pid" 2>/dev/null
    for ((i = 0; i < 100; ++i)); do kill -0 "$pid" 2>/dev/null || break; sleep 0.05; done
    kill -KILL "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
  done
}

stop() {
  trap - EXIT
  trap '' HUP INT TERM
  end "${running[@]}"
  end_all_inside
  rm -rf "$folder"
}
trap stop EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

show_logs() { tail -n 15 "$folder"/*.log 2>/dev/null; }

# Two ports that nobody listens on, below the range that outgoing connections take.
free_port() {
  local port
  while :; do
    port=$((10000 + RANDOM % 10000))
    [ "$port" != "${1:-}" ] && ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && { echo "$port"; return; }
  done
}
controller_port=$(free_port)
node_port=$(free_port "$controller_port")
host=$(hostname -s)

mkdir "$folder/munge" "$folder/state" "$folder/spool"
chmod 755 "$folder/munge"
(umask 077 && mungekey --create --keyfile="$folder/munge/key") || cannot_run "mungekey made no key"
munged --foreground --force --key-file="$folder/munge/key" --socket="$folder/munge/socket" \
  --pid-file="$folder/munge/pid" --log-file="$folder/munged.log" --seed-file="$folder/munge/seed" \
  >"$folder/munged.out.log" 2>&1 </dev/null &
daemons+=($!) running=($! "${running[@]}")

cat >"$folder/slurm.conf" <<CONF
ClusterName=tutti
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort=$controller_port
SlurmdPort=$node_port
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$folder/munge/socket
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SlurmdParameters=config_overrides
ReturnToService=2
SlurmctldTimeout=120
SlurmdTimeout=120
KillWait=2
NodeName=$host NodeAddr=127.0.0.1 CPUs=16 State=UNKNOWN
PartitionName=all Nodes=$host Default=YES MaxTime=INFINITE State=UP
CONF
# Without this file slurmd looks for control groups, which a container may not have.
echo "CgroupPlugin=cgroup/v1" >"$folder/cgroup.conf"
export SLURM_CONF=$folder/slurm.conf

for ((i = 0; i < seconds_to_wait * 10; ++i)); do
  munge --socket="$folder/munge/socket" --no-input >/dev/null 2>&1 && break
  sleep 0.1
done
munge --socket="$folder/munge/socket" --no-input >/dev/null 2>&1 || { show_logs; cannot_run "munged does not answer"; }

slurmctld -D -c >"$folder/slurmctld.out.log" 2>&1 </dev/null &
daemons+=($!) running=($! "${running[@]}")
slurmd -D >"$folder/slurmd.out.log" 2>&1 </dev/null &
daemons+=($!) running=($! "${running[@]}")

node_state=
for ((i = 0; i < seconds_to_wait * 5; ++i)); do
  for pid in "${daemons[@]}"; do
    kill -0 "$pid" 2>/dev/null || { show_logs; cannot_run "a daemon ended before the node was ready"; }
  done
  node_state=$(timeout 5 sinfo --noheader --format=%t 2>/dev/null)
  [ "$node_state" = idle ] && break
  sleep 0.2
done
[ "$node_state" = idle ] || { show_logs; cannot_run "the node is '$node_state' after $seconds_to_wait s, not idle"; }

# In the background, because bash runs a trap only between commands: so a signal ends COMMAND and the daemons at once.
"$@" &
running=($! "${running[@]}")
wait "${running[0]}"
status=$?
running=("${running[@]:1}")
exit $status
