#!/bin/sh
# ExecStopPost of a session: kills what is left in its cgroup, at once. A shim that ended in order has done so
# itself, gently; this is for one that could not. After a crash of the shim (signal, core-dump) systemd starts
# it again and the agent must live, so nothing is touched then.
case $SERVICE_RESULT in signal | core-dump) exit 0 ;; esac
# Tells the next shim of this unit that the run is over: systemd keeps the stored descriptors over a restart.
: >"$1/closed"
while IFS= read -r line; do case $line in 0::*) group=${line#0::} ;; esac; done </proc/self/cgroup
procs=/sys/fs/cgroup$group/cgroup.procs
[ -r "$procs" ] || procs=/sys/fs/cgroup/unified$group/cgroup.procs
[ -r "$procs" ] || exit 0
tries=0
while [ $tries -lt 1000 ]; do
    left=
    while read -r pid; do
        [ "$pid" = $$ ] || { left=1 && kill -KILL "$pid" 2>/dev/null; }
    done <"$procs"
    [ -n "$left" ] || exit 0
    tries=$((tries + 1))
done
exit 0
