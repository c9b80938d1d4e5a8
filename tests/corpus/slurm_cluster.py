"""A Slurm cluster of one node on the loopback interface: its controller, its daemon and the authentication."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

CONFIG = """
ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/socket
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
MpiDefault=none
NodeName=node1 NodeHostname={host} NodeAddr=127.0.0.1 CPUs=2 RealMemory=8000 State=UNKNOWN
PartitionName=short Nodes=ALL MaxTime=INFINITE State=UP
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch")


def is_installed() -> bool:
    return all(_program(name) for name in PROGRAMS)


@contextmanager
def slurm_cluster(folder: Path) -> Generator[dict[str, str]]:
    """Start a cluster that keeps its files in `folder`; yields the environment variables that name it."""
    for name in ("state", "spool"):
        (folder / name).mkdir()
    key = folder / "key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    config = folder / "slurm.conf"
    config.write_text(
        CONFIG.format(user=getpass.getuser(), folder=folder, ports=_free_ports(), host=socket.gethostname())
    )
    daemons = [
        [_program("munged"), "--foreground", "--force", f"--key-file={key}", f"--socket={folder}/socket",
         f"--pid-file={folder}/munged.pid", f"--log-file={folder}/munged.log", f"--seed-file={folder}/seed"],
        [_program("slurmctld"), "-D", "-f", str(config)],
        [_program("slurmd"), "-D", "-N", "node1", "-f", str(config)],
    ]  # fmt: skip
    environment = {"SLURM_CONF": str(config)}
    started: list[subprocess.Popen[bytes]] = []
    try:
        for arguments in daemons:
            started.append(subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            while arguments[0] == daemons[0][0] and not (folder / "socket").exists():
                time.sleep(0.05)
        _wait_until_idle(environment)
        yield environment
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_until_idle(environment: dict[str, str]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        state = subprocess.run(
            ["sinfo", "-h", "-o", "%T"], capture_output=True, text=True, env={**os.environ, **environment}
        )
        if "idle" in state.stdout:
            return
        time.sleep(0.2)
    raise TimeoutError("Slurm's node did not become idle within a minute")


def _program(name: str) -> str:
    return shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") or ""


def _free_ports() -> tuple[int, int]:
    with socket.socket() as first, socket.socket() as second:
        for one in (first, second):
            one.bind(("127.0.0.1", 0))
        return first.getsockname()[1], second.getsockname()[1]
