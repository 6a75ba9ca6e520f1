"""`python -m warehouse.local.front --data DIR --port N`: serve one data directory on 127.0.0.1 until SIGTERM.

Users come from the environment, never from the command line, which everyone can read: BACKLINKS_FRONT_USERS is a JSON
list of {"name", "password", "readonly"}.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import signal
import sys
from pathlib import Path

import uvicorn


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m warehouse.local.front", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="data directory; made if it is not there")
    parser.add_argument("--port", type=int, required=True, help="port on 127.0.0.1")
    parser.add_argument("--memory-mb", type=int, default=4096, help="most memory all queries together may use")
    parser.add_argument("--threads", type=int, default=None, help="max_threads of a query")
    options = parser.parse_args()
    if not _cpu_can():
        return _refuse(
            "this processor has no AVX2, which the chDB engine needs; point BACKLINKS_CLICKHOUSE__HOST at a real server"
        )
    from warehouse.local.front.app import Front, User

    users = [User(**user) for user in json.loads(os.environ["BACKLINKS_FRONT_USERS"])]
    try:
        options.data.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = open(options.data / "front.lock", "a", encoding="ascii")  # noqa: SIM115 - held until the process ends
    except OSError as error:
        return _refuse(f"cannot write the data directory {options.data}: {(error.strerror or str(error)).lower()}")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return _refuse(f"another process serves the data directory {options.data}; stop it first")
    from warehouse.local.front.engine import Engine, EngineError

    try:
        engine = Engine(options.data, memory_bytes=options.memory_mb << 20, threads=options.threads)
    except (RuntimeError, OSError, EngineError) as error:
        return _refuse(f"the data directory {options.data} cannot be opened: {str(error).splitlines()[0][:500]}")
    front = Front(engine, users)
    config = uvicorn.Config(
        front,
        host="127.0.0.1",
        port=options.port,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=5,
        h11_max_incomplete_event_size=4 << 20,
    )
    # uvicorn raises the signal that ended it once more; the engine is to be closed first.
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signal_number, lambda *_: sys.exit(0))
    try:
        uvicorn.Server(config).run()
    finally:
        front.close()
        engine.close()
    return 0


def _cpu_can() -> bool:
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return True
    return os.uname().machine != "x86_64" or " avx2 " in flags


def _refuse(sentence: str) -> int:
    print(f"clickhouse: {sentence}.", file=sys.stderr)
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
