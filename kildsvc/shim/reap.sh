#!/bin/sh
# ExecStopPost of a session: kills what is left in its cgroup, at once. A shim that ended in order has done so
# itself, gently; this is for one that could not.
case $SERVICE_RESULT in
signal | core-dump)
    # The shim has crashed. systemd starts it again, so the agent must live; unless a stop was under way.
    [ -e "$1/stopping" ] || exit 0
    ;;
*)
    # Tells the next shim of this unit that the run is over: systemd keeps stored descriptors over a restart.
    # (Not ":", which ends the shell when there is no room.)
    true >"$1/closed"
    ;;
esac
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
