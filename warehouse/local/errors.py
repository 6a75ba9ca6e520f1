"""What can go wrong with the local stack, each as one sentence for a person. Not here: errors of the stores."""

from __future__ import annotations

from transforms.errors import PermanentError, TransientError


class StackError(PermanentError):
    """A part of the local stack cannot work as it is set up; the sentence says what to change."""


class StackBusy(TransientError):
    """Another `up` or `down` holds the stack folder."""


class StackTimeout(TransientError):
    """A part did not answer, or did not stop, before its deadline."""


class PortTaken(StackError):
    """Another program listens where a part of the stack should."""

    def __init__(self, part: str, port: int, setting: str, owner: str | None = None) -> None:
        by = f" ({owner})" if owner else ""
        super().__init__(
            f"{part}: port {port} on 127.0.0.1 is taken by another program{by}; stop it, or choose another port with "
            f"{setting}=<port>."
        )
        self.part, self.port, self.setting = part, port, setting
