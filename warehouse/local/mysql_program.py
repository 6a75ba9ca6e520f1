"""Where the MySQL server program comes from. Here: one on PATH, or Debian's own package unpacked into a cache folder.

The package is fetched by the machine's apt with private directories (lists, archives, state), so signatures are checked
as for any package and the system is not touched; it runs through its own loader, so it does not need the machine's
libraries, nor root. Not here: the data directory and the running server (`warehouse.local.mysql`).
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from warehouse.local.config import StackSettings
from warehouse.local.errors import StackError
from warehouse.local.paths import cache_folder, explained, resolve
from warehouse.local.processes import Report, silent

_PART = "mysql"
_HINT = "install MySQL 8.0 or newer, or name a server with BACKLINKS_STACK__MYSQLD=/path/to/mysqld"
#: Needed by maintainer scripts or helper tools of the package, never by mysqld itself.
_NOT_NEEDED = re.compile(r"^(perl|libperl|perl-|libgdbm|gcc-\d+-base|libc-gconv|libtirpc-common)")
_NO_FILES = (
    "./usr/share/doc*",
    "./usr/share/man*",
    "./usr/share/locale*",
    "./usr/share/perl*",
    "./usr/share/lintian*",
    "./usr/share/gdb*",
    "./etc*",
)


@dataclass(frozen=True)
class MysqlProgram:
    """How to call mysqld: `argv` comes before every other argument."""

    argv: tuple[str, ...]
    version: str
    origin: str  # for a person: "PATH", "settings", "cache"


def find_program(settings: StackSettings, report: Report = silent) -> MysqlProgram:
    """The server program that the settings ask for, downloaded if need be (60 MB, once per cache folder)."""
    if settings.mysqld not in ("auto", "download"):
        path = resolve(settings.mysqld)
        version = _version((str(path),))
        if version is None:
            raise StackError(
                f"mysql: {path} (BACKLINKS_STACK__MYSQLD) is not a MySQL server of version 8.0 or newer; {_HINT}."
            )
        return MysqlProgram((str(path),), version, "settings")
    if settings.mysqld == "auto":
        on_path = shutil.which("mysqld", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
        version = _version((on_path,)) if on_path else None
        if on_path and version:
            return MysqlProgram((on_path,), version, "PATH")
    return _cached(settings, report)


def _version(argv: tuple[str, ...]) -> str | None:
    """`8.4.3`-like version of a mysqld; None if it is MariaDB, older than 8.0, or does not run."""
    try:
        done = subprocess.run(
            [*argv, "--no-defaults", "--version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"Ver (\d+)\.(\d+)\.\d+\S*", done.stdout)
    if done.returncode or match is None or "MariaDB" in done.stdout or int(match[1]) < 8:
        return None
    return match[0].removeprefix("Ver ")


# --- the private copy ---------------------------------------------------------------------------------------------


def _cached(settings: StackSettings, report: Report) -> MysqlProgram:
    cache = cache_folder(settings)
    home = cache / "mysql-server"
    manifest = _intact(home)
    if manifest is not None:  # also where the cache is somebody else's and can only be read
        return MysqlProgram(_argv(home / "root"), manifest["version"], "cache")
    with explained(f"the cache folder {cache}", "BACKLINKS_STACK__CACHE"):
        cache.mkdir(parents=True, exist_ok=True)
        with _locked(cache / "mysql-server.lock"):
            manifest = _intact(home)
            if manifest is None:
                _remove(home)  # half or damaged: nothing in it is worth keeping
                manifest = _fetch(settings, cache, home, report)
    return MysqlProgram(_argv(home / "root"), manifest["version"], "cache")


def _argv(root: Path) -> tuple[str, ...]:
    libraries = _libraries(root)
    loader = next(libraries.glob("ld-linux-*.so.*"))
    share = root / "usr/share/mysql"
    return (
        str(loader), "--library-path", str(libraries), str(root / "usr/sbin/mysqld"),
        "--no-defaults",
        f"--basedir={root / 'usr'}",
        f"--lc-messages-dir={share}",
        f"--character-sets-dir={share / 'charsets'}",
        f"--plugin-dir={root / 'usr/lib/mysql/plugin'}",
    )  # fmt: skip


def _libraries(root: Path) -> Path:
    return next(p.parent for p in root.glob("usr/lib/*-linux-gnu*/ld-linux-*.so.*"))


def _inventory(root: Path) -> dict[str, int]:
    """Size of every file under `root`, by relative path."""
    return {
        str(p.relative_to(root)): p.stat().st_size
        for p in sorted(root.rglob("*"))
        if p.is_file() and not p.is_symlink()
    }


def _intact(home: Path) -> dict[str, str] | None:
    """The manifest if the copy is complete and every file has its size; else None."""
    try:
        manifest = json.loads((home / "manifest.json").read_text(encoding="utf-8"))
        return manifest if _inventory(home / "root") == manifest["files"] else None
    except (OSError, ValueError, KeyError):
        return None


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One process at a time; others wait (a download takes seconds, and then there is nothing left to do)."""
    with open(path, "a", encoding="ascii") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _remove(path: Path) -> None:
    if path.exists():
        shutil.rmtree(path)


def _fetch(settings: StackSettings, cache: Path, home: Path, report: Report) -> dict[str, str]:
    """Download, unpack beside, try it, rename into place."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise StackError(f"mysql: there is no mysqld on PATH and no apt on this machine to fetch one; {_HINT}.")
    work = cache / "mysql-server.part"
    _remove(work)
    work.mkdir(mode=0o755)
    report(_PART, "fetching the MySQL server (60 MB, once)", 0.0)
    archives = _download(settings, work, report)
    report(_PART, "unpacking the MySQL server", None)
    root = work / "root"
    root.mkdir()
    for archive in archives:
        _unpack(archive, root)
    version = _version(_argv(root)[:4])
    if version is None:
        raise StackError(f"mysql: the downloaded server does not run on this machine; {_HINT}.")
    manifest = {"version": version, "packages": [a.name for a in archives], "files": _inventory(root)}
    for name in ("apt", "archives"):
        _remove(work / name)
    (work / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    os.sync()  # the rename must not become durable before what it names
    os.rename(work, home)
    return {"version": version}


def _unpack(archive: Path, root: Path) -> None:
    excludes = [f"--exclude={pattern}" for pattern in _NO_FILES]
    with subprocess.Popen(
        ["dpkg-deb", "--fsys-tarfile", str(archive)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as deb:
        tar = subprocess.run(
            ["tar", "-x", "--no-same-owner", "-C", str(root), *excludes],
            stdin=deb.stdout,
            capture_output=True,
            text=True,
            check=False,
        )
        complaint = (deb.stderr.read() if deb.stderr else b"").decode("utf-8", "replace") or tar.stderr
    if deb.returncode or tar.returncode:
        last = complaint.strip().splitlines()[-1:] or ["no reason given"]
        raise StackError(
            f"mysql: cannot unpack {archive.name} into {root}: {last[0]}; free some space in the cache folder "
            "(BACKLINKS_STACK__CACHE) and run again."
        )


def _download(settings: StackSettings, work: Path, report: Report) -> list[Path]:
    """Every package mysqld needs, as verified .deb files."""
    config = _apt_config(settings, work)
    env = {**os.environ, "APT_CONFIG": str(config), "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
    _apt(["apt-get", "-q", "update"], env, report, start=0.0, share=0.2)
    package = _package(env)
    _apt(["apt-get", "-q", "-y", "--download-only", "install", package], env, report, start=0.2, share=0.8)
    archives = sorted(p for p in (work / "archives").glob("*.deb") if not _NOT_NEEDED.match(p.name))
    if not any(p.name.startswith(package) for p in archives):
        raise StackError(f"mysql: apt fetched nothing for {package}; {_HINT}.")
    return archives


def _package(env: dict[str, str]) -> str:
    """`mysql-server-core`, or the newest `mysql-server-core-X.Y` where only versioned names exist (Ubuntu)."""
    done = subprocess.run(
        ["apt-cache", "pkgnames", "mysql-server-core"], env=env, capture_output=True, text=True, check=False
    )
    names = sorted(
        done.stdout.split(), key=lambda n: (n == "mysql-server-core", [int(x) for x in re.findall(r"\d+", n)])
    )
    if not names:
        raise StackError(
            f"mysql: this machine's package mirror has no mysql-server-core; {_HINT}, or another mirror with "
            "BACKLINKS_STACK__APT_MIRROR."
        )
    return names[-1]


def _apt(argv: list[str], env: dict[str, str], report: Report, *, start: float, share: float) -> None:
    """Run apt, passing on its own percentages; its complaint becomes one sentence."""
    read, write = os.pipe()
    try:
        with open(read, encoding="utf-8", errors="replace") as status:
            options = ["-o", f"APT::Status-Fd={write}", "-o", "APT::Update::Error-Mode=any"]
            with subprocess.Popen(
                [*argv, *options],
                env=env,
                pass_fds=[write],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            ) as apt:
                os.close(write)
                write = -1
                for line in status:
                    fields = line.split(":", 3)
                    if fields[0] == "dlstatus" and len(fields) == 4:
                        report(_PART, "fetching the MySQL server (60 MB, once)", start + share * float(fields[2]) / 100)
                complaint = apt.stderr.read() if apt.stderr else ""
    finally:
        if write >= 0:
            os.close(write)
    if apt.returncode:
        errors = [line[3:].strip() for line in complaint.splitlines() if line.startswith("E: ")] or [
            "apt gave no reason"
        ]
        raise StackError(
            f"mysql: there is no mysqld on PATH and it could not be fetched ({errors[0]}); check the network, or "
            f"{_HINT}."
        )


def _apt_config(settings: StackSettings, work: Path) -> Path:
    """An apt configuration with every directory under `work`; of the machine's own, only how to reach the network.

    Hooks of the machine (`APT::Update::Post-Invoke`, …) are left out on purpose: they act on the system.
    """
    apt = work / "apt"
    for folder in ("lists/partial", "sources", "empty", "log"):
        (apt / folder).mkdir(parents=True)
    (work / "archives/partial").mkdir(parents=True)
    (apt / "status").touch()  # nothing is installed, so every library comes along
    dump = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=False).stdout
    network = [line for line in dump.splitlines() if line.startswith("Acquire::")]  # proxies, certificates, checks
    own = {
        "Dir::State": apt, "Dir::State::lists": apt / "lists", "Dir::State::status": apt / "status",
        "Dir::Cache": apt, "Dir::Cache::archives": work / "archives", "Dir::Log": apt / "log",
        "Dir::Etc::sourcelist": "/dev/null", "Dir::Etc::sourceparts": apt / "sources",
        "Dir::Etc::main": "/dev/null", "Dir::Etc::parts": apt / "empty",
        "Dir::Etc::preferences": "/dev/null", "Dir::Etc::preferencesparts": apt / "empty",
        "Acquire::Languages": "none", "APT::Sandbox::User": "", "APT::Install-Recommends": "0", "Acquire::Retries": "2",
    }  # fmt: skip
    lines = network + [f'{key} "{value}";' for key, value in own.items()]
    mirror, suite, components, keyring = _source(settings)
    (apt / "sources/private.sources").write_text(
        f"Types: deb\nURIs: {mirror}\nSuites: {suite}\nComponents: {components}\n"
        + (f"Signed-By: {keyring}\n" if keyring else ""),
        encoding="utf-8",
    )
    config = apt / "apt.conf"
    config.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return config


def _source(settings: StackSettings) -> tuple[str, str, str, str | None]:
    """(mirror, suites, components, keyring) to fetch from; the mirror is the one this machine's apt already uses."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        release = {}
    distribution, codename = release.get("ID", "debian"), release.get("VERSION_CODENAME", "")
    ubuntu = distribution == "ubuntu"
    suite = settings.apt_suite or (f"{codename} {codename}-updates" if ubuntu else "unstable")
    components = "main universe" if ubuntu else "main"
    keyring = next((k for k in (Path(f"/usr/share/keyrings/{distribution}-archive-keyring.gpg"),) if k.is_file()), None)
    mirror = settings.apt_mirror or _own_mirror(distribution)
    if mirror is None:
        raise StackError(
            "mysql: there is no mysqld on PATH and this machine's apt names no mirror to fetch one from; set "
            f"BACKLINKS_STACK__APT_MIRROR, or {_HINT}."
        )
    return mirror, suite, components, str(keyring) if keyring else None


def _own_mirror(distribution: str) -> str | None:
    """URI of the machine's main archive, as apt itself reads its sources (any format)."""
    done = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    rows = [line.split() for line in done.stdout.splitlines() if len(line.split()) == 3]
    main = [
        uri
        for uri, release, component in rows
        if component == "main" and "security" not in release and "backports" not in release
    ]
    return next((uri for uri in main if uri.rstrip("/").endswith(f"/{distribution}")), main[0] if main else None)
