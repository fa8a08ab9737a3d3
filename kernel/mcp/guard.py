"""Run a program that ends with its parent, however the parent ends. Run as a script: `guard.py PARENT PROGRAM …`.

It leads the program's process group and waits. When the program ends, the rest of the group is told to; when the
parent is gone, even by SIGKILL, the whole group is ended. Linux tells of that; elsewhere the program must heed the end
of its standard input. A program that moves to another session escapes. Standard library only, and little of it: one
such process stands beside each program.
"""

import ctypes
import os
import signal
import sys
import time

PR_SET_PDEATHSIG = 1
ORPHANED = signal.SIGUSR1
GRACE_S = 1.0
CANNOT_RUN = 127


def main(parent: int, argv: list[str]) -> None:
    signal.signal(signal.SIGTERM, lambda *_: None)  # it is for the program; the guard ends when that has
    signal.signal(ORPHANED, lambda *_: end_group())
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, ORPHANED)
        if os.getppid() != parent:  # gone before it was asked for
            end_group()
    program = os.fork()
    if not program:
        become(argv)
    for standard in (0, 1, 2):
        os.close(standard)  # their ends are the program's to close
    _, status = os.waitpid(program, 0)
    os.killpg(0, signal.SIGTERM)
    os._exit(max(0, os.waitstatus_to_exitcode(status)))


def become(argv: list[str]) -> None:
    try:
        os.execvp(argv[0], argv)  # noqa: S606  # no shell, on purpose
    except OSError as error:
        os.write(2, f"{argv[0]} cannot be run: {error.strerror}.\n".encode())
    os._exit(CANNOT_RUN)


def end_group() -> None:
    os.killpg(0, signal.SIGTERM)
    time.sleep(GRACE_S)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
