"""The one-machine SLURM with accounting, as clusters have it: MariaDB and slurmdbd, and two GPUs a node.

The GPUs are character devices: SLURM allocates and counts them, and no program finds them. Needs Debian's slurmdbd,
mariadb-server-core and mariadb-client-core.
"""

import shutil
import socket
import subprocess
from pathlib import Path

from tests.cluster import one_machine
from tests.cluster.one_machine import OneMachineSlurm, client, free_ports, until

PROGRAMS = ("mariadbd", "mariadb-install-db", "my_print_defaults", "slurmdbd", "sacct", "sacctmgr", "mknod")
GPUS = 2
CONF = """\
AccountingStorageHost=127.0.0.1
AccountingStoragePort={port}
AccountingStoragePass={folder}/munge.socket
AccountingStorageTRES=gres/gpu
GresTypes=gpu
"""
SLURMDBD_CONF = """\
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
DbdHost=localhost
DbdPort={port}
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={database_port}
StorageUser=root
StorageLoc=slurm
LogFile={folder}/slurmdbd.log
PidFile={folder}/slurmdbd.pid
"""


def lacking() -> str:
    """Returns the reason why this machine cannot run it; empty if it can."""
    absent = [program for program in PROGRAMS if shutil.which(program) is None]
    packages = "apt-get install slurmdbd mariadb-server-core mariadb-client-core"
    return one_machine.lacking() or (f"not installed: {', '.join(absent)} ({packages})" if absent else "")


class SlurmWithAccounting(OneMachineSlurm):
    """Keeps what each job held; ``sacct`` reads it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._port, self._database_port = free_ports(2)

    def _with_accounting(self, conf: str) -> str:
        own = CONF.format(folder=self.folder, port=self._port)
        conf = conf.replace("accounting_storage/none\n", f"accounting_storage/slurmdbd\n{own}")
        return conf.replace(" State=UNKNOWN", f" Gres=gpu:{GPUS} State=UNKNOWN")

    def _start_accounting(self) -> None:
        devices = [self.folder / f"gpu{number}" for number in range(GPUS)]
        for device in devices:
            subprocess.run(["mknod", str(device), "c", "1", "3"], check=True)
        (self.folder / "gres.conf").write_text(f"AutoDetect=off\nName=gpu File={self.folder}/gpu[0-{GPUS - 1}]\n")
        data, address = self.folder / "database", ["--bind-address=127.0.0.1", f"--port={self._database_port}"]
        installation = ["mariadb-install-db", "--no-defaults", f"--datadir={data}", "--user=root", "--skip-test-db"]
        subprocess.run(installation, check=True, capture_output=True)
        database = ["mariadbd", "--no-defaults", f"--datadir={data}", "--user=root", "--skip-grant-tables", *address]
        # slurmdbd refuses a database whose locks wait less than 900 s
        self._spawn([*database, f"--socket={self.folder}/database.socket", "--innodb-lock-wait-timeout=900"])
        self._wait_for(self._database_port)
        conf = self.folder / "slurmdbd.conf"
        conf.touch(0o600)
        conf.write_text(SLURMDBD_CONF.format(folder=self.folder, port=self._port, database_port=self._database_port))
        self._spawn(["env", f"SLURM_CONF={conf}", "slurmdbd", "-D"])
        self._wait_for(self._port)
        if not client("sacctmgr", "--immediate", "add", "cluster", "headrace"):
            raise RuntimeError(f"no accounting:\n{(self.folder / 'slurmdbd.log').read_text()[-2000:]}")

    def _wait_for(self, port: int) -> None:
        if not until(lambda: _listens(port), one_machine.UP_SECONDS):
            raise RuntimeError(f"port {port}: nothing listens\n{(self.folder / 'daemons.log').read_text()[-2000:]}")


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
