"""Resolving a name once, and remembering the answer. Here: the system resolver on trio, the cache, refusals included.
Not here: judging addresses (`addresses`), connecting (`network`).
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import Protocol

import trio

from transforms.reasons import Reason

MAX_ANSWER = 128
"""Addresses of one name. Every one of them has to be public, so a longer answer is refused rather than cut."""
_NO_SUCH_NAME = {socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)}


@dataclass(frozen=True, slots=True)
class Resolution:
    """Every address of a name (text form), or why there is none."""

    addresses: tuple[str, ...] = ()
    failure: Reason | None = None
    detail: str = ""


class Resolver(Protocol):
    async def resolve(self, host: str) -> Resolution: ...


class SystemResolver:
    """`getaddrinfo` in a bounded number of threads, under a time limit.

    The name is asked as absolute (with its final dot), so that a search list of this machine never turns a public name
    into an internal one.
    """

    def __init__(self, timeout_s: float = 10.0, threads: int = 32) -> None:
        self._timeout_s = timeout_s
        self._limiter = trio.CapacityLimiter(threads)

    async def resolve(self, host: str) -> Resolution:
        name = host if host.endswith(".") else host + "."
        with trio.move_on_after(self._timeout_s):
            try:
                infos = await trio.to_thread.run_sync(_getaddrinfo, name, abandon_on_cancel=True, limiter=self._limiter)
            except socket.gaierror as e:
                if e.errno in _NO_SUCH_NAME:
                    return Resolution((), Reason.DNS_NXDOMAIN, f"DNS knows no address of {host}.")
                return Resolution((), Reason.DNS_FAILED, f"DNS did not answer for {host}: {e.strerror}.")
            except (OSError, UnicodeError) as e:
                return Resolution((), Reason.DNS_FAILED, f"{host} cannot be looked up: {e}.")
            addresses = tuple(dict.fromkeys(str(info[4][0]) for info in infos))
            if len(addresses) > MAX_ANSWER:
                detail = f"DNS gives {len(addresses)} addresses for {host}; at most {MAX_ANSWER} are looked at."
                return Resolution((), Reason.DNS_FAILED, detail)
            return Resolution(addresses)
        return Resolution((), Reason.DNS_FAILED, f"DNS did not answer for {host} within {self._timeout_s:g} s.")


def _getaddrinfo(name: str) -> list[tuple]:
    return socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)


class DnsCache:
    """Remembers answers for `ttl_s`, NXDOMAIN for `nxdomain_ttl_s` and other failures for `failure_ttl_s`; a name that
    is being looked up is asked once however many wait for it. At most `max_names` are kept.

    `getaddrinfo` does not tell TTLs: `ttl_s` stands in for them. A changed answer is checked anew like the first.
    """

    def __init__(
        self,
        resolver: Resolver,
        ttl_s: float = 300.0,
        nxdomain_ttl_s: float = 3600.0,
        failure_ttl_s: float = 30.0,
        max_names: int = 50_000,
    ) -> None:
        self._resolver = resolver
        self._ttl_s = ttl_s
        self._nxdomain_ttl_s = nxdomain_ttl_s
        self._failure_ttl_s = failure_ttl_s
        self._max_names = max_names
        self._known: dict[str, tuple[float, Resolution]] = {}
        self._asking: dict[str, trio.Event] = {}

    def peek(self, host: str) -> Resolution | None:
        """The remembered answer, if it is still believed."""
        known = self._known.get(host)
        return known[1] if known is not None and known[0] > trio.current_time() else None

    async def resolve(self, host: str) -> Resolution:
        while True:
            answer = self.peek(host)
            if answer is not None:
                return answer
            pending = self._asking.get(host)
            if pending is None:
                break
            await pending.wait()
        done = self._asking[host] = trio.Event()
        try:
            answer = await self._resolver.resolve(host)
            if len(self._known) >= self._max_names:
                self._known.pop(next(iter(self._known)))
            self._known[host] = (trio.current_time() + self._ttl_of(answer), answer)
            return answer
        finally:
            del self._asking[host]
            done.set()

    def _ttl_of(self, answer: Resolution) -> float:
        if answer.failure is None:
            return self._ttl_s
        return self._nxdomain_ttl_s if answer.failure is Reason.DNS_NXDOMAIN else self._failure_ttl_s
