"""The `backlinks` command. Here: the list of commands and how an error is shown. Not here: what they do (one module each).

Modules are imported when their command runs, so that `backlinks --help` and the filters start quickly.
"""

from orchestration.cli.main import main

__all__ = ["main"]
