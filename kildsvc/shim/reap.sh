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
root=/sys/fs/cgroup
[ -r "$root$group/cgroup.procs" ] || root=$root/unified
tries=0
while [ $tries -lt 1000 ]; do
    left=
    # An agent that was paused once is in a group of its own.
    for procs in "$root$group/cgroup.procs" "$root$group/agent/cgroup.procs"; do
        [ -r "$procs" ] || continue
        while read -r pid; do
            [ "$pid" = $$ ] || { left=1 && kill -KILL "$pid" 2>/dev/null; }
        done <"$procs"
    done
    [ -n "$left" ] || exit 0
    tries=$((tries + 1))
done
exit 0
