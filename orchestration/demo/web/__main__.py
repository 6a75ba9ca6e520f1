"""`python -m orchestration.demo.web --port 0 --state FILE`: the scripted web as a process of its own."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import trio

from orchestration.demo.scenario.model import load_scenario
from orchestration.demo.web import addresses_of
from orchestration.demo.web.server import Web, run
from transforms.errors import BacklinksError


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m orchestration.demo.web", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="port on every loopback address; 0: any free one")
    parser.add_argument("--state", type=Path, help="file that receives pid, port and addresses once it answers")
    parser.add_argument("--window", type=int, default=0, help="window to start in")
    parser.add_argument("--until-stdin-closes", action="store_true", help="end with the process that started it")
    given = parser.parse_args()
    scenario = load_scenario()
    web = Web.of_scenario(scenario, given.window)
    web.warm()
    try:
        trio.run(
            lambda: run(
                web, addresses_of(scenario.hosts), given.port, given.state, until_stdin_closes=given.until_stdin_closes
            )
        )
    except BacklinksError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        if given.state is not None:
            given.state.unlink(missing_ok=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
