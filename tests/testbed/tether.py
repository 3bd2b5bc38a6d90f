"""Becomes the program it is given, tied to the life of its parent: `python tether.py <parent's pid> program args…`.

Run by `processes` as a script. The kernel kills the program when the thread that started it ends, even by SIGKILL,
when no cleaning up of ours can run. It is a program of its own, not a `preexec_fn`, because Python code between fork
and exec can deadlock in a process that has threads, and pytest-xdist's workers do. On other systems than Linux there
is no such tie, and only `ControlPlane.stop` ends them.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # from linux/prctl.h; it survives exec


def tie_to_parent(parent: int) -> None:
    """Have the kernel kill this process when the parent's thread that started it ends."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent:  # it died before the tie was made
        sys.exit(f"tether: the parent {parent} is gone")


def main() -> None:
    parent, program, *args = sys.argv[1:]
    tie_to_parent(int(parent))
    os.execv(program, [program, *args])


if __name__ == "__main__":
    main()
