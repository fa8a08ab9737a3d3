"""What the kernel knows of a process and of this machine, read from /proc."""

import os
import platform
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    """Processor seconds, user and system, that the process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def private_kb(pid: int) -> int:
    """Memory that the process shares with nobody, in kB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("Private_Clean:", "Private_Dirty:")))


def description() -> str:
    """The machine's size and what else it was doing."""
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    python = platform.python_version()
    return f"{os.cpu_count()} cores, Python {python}, {platform.system()} {platform.machine()}, load before: {load}"
