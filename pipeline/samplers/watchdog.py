"""Runs one command and ends its whole process group when the parent is gone.

Started by path as `python -I watchdog.py PARENT_PID GRACE_SECONDS COMMAND…`, in a session of
its own, with a pipe from the parent as standard input. It is the leader of the process group
in which the command and all its children live. The pipe's end, a parent of another pid (the
pipe may have been inherited by a fork that outlives the parent), SIGTERM or the command's own
end ends the group: SIGTERM, a time of grace, then SIGKILL. Its last act is always SIGKILL to its
own group, itself included, so whatever the command started is gone when the watchdog is.

Uses the standard library only and imports nothing of ours: it must start at once and must
run where only this file is reachable. Linux and macOS; no Windows.
"""

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

POLL_SECONDS = 0.2


def main(arguments: list[str]) -> None:
    """Run `arguments[2:]` until it ends or the parent does; never returns."""
    parent_pid, grace_seconds, command = int(arguments[0]), float(arguments[1]), arguments[2:]
    stop_signals: list[int] = []

    def note_signal(signum: int, _frame: FrameType | None) -> None:
        stop_signals.append(signum)

    # A handler, not SIG_IGN: an ignored signal would stay ignored in the command.
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, note_signal)
    try:
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    except OSError as error:
        _say(f"cannot start {command[0]!r}: {error}")
        os.killpg(0, signal.SIGKILL)
        return
    while server.poll() is None and not stop_signals and _parent_lives(parent_pid):
        pass
    os.killpg(0, signal.SIGTERM)
    deadline = time.monotonic() + grace_seconds
    # The others too: Python's resource tracker frees a crashed engine's shared memory, but
    # only after the last worker's end, which takes seconds on a busy machine.
    while (server.poll() is None or _others_in_group()) and time.monotonic() < deadline:
        time.sleep(0.05)
    status = server.poll()
    _say("server killed" if status is None else f"server ended with exit status {status}")
    os.killpg(0, signal.SIGKILL)


def _parent_lives(parent_pid: int) -> bool:
    """Wait one poll for the pipe's end; the parent never writes to it."""
    readable, _, _ = select.select([sys.stdin], [], [], POLL_SECONDS)
    return not readable and os.getppid() == parent_pid


def _others_in_group() -> bool:
    """Whether another process of the own group runs; true where there is no /proc."""
    own_pid, own_group = os.getpid(), os.getpgid(0)
    if not Path("/proc/self").is_dir():
        return True
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return any(_runs_in_group(pid, own_group) for pid in pids if pid != own_pid)


def _runs_in_group(pid: int, group: int) -> bool:
    """Whether the process is in the group and no zombie."""
    try:
        if os.getpgid(pid) != group:
            return False
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2][:1]
    except OSError:
        return False
    return state not in (b"Z", b"X", b"")


def _say(text: str) -> None:
    sys.stderr.write(f"stepmark watchdog: {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
