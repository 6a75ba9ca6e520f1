"""The two kinds of error this project knows. Here: the base classes. Not here: reasons for evidence (`transforms.reasons`).

The orchestration retries `TransientError` and stops at `PermanentError`. Both carry one clear sentence for a person:
what is wrong (naming the row, field, file or URL) and what to do.
"""


class BacklinksError(Exception):
    """Base of every error whose message is meant for a person."""


class TransientError(BacklinksError):
    """A retry can help: a server is down, a lock timed out, a lease is held by somebody else."""


class PermanentError(BacklinksError):
    """A retry cannot help: a wrong password, a broken file, a setting that makes no sense."""
