"""The gate itself: URL in, a checked address out, and a connection to that address only. Here: the order of the checks.
Not here: robots, politeness, HTTP.

Use it for anything that contacts a URL which somebody else chose::

    gate = EgressGate(allowed_ports=(443,))
    admission = await gate.admit(url)      # raises Refused: nothing was opened
    stream = await gate.connect(admission) # to admission.addresses, never to the name again
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address

import trio

from crawl.egress.addresses import refusal_of
from crawl.egress.network import Network, TrioNetwork
from crawl.egress.resolver import DnsCache, Resolver, SystemResolver
from crawl.egress.urls import Target, inspect_url
from transforms.errors import PermanentError
from transforms.reasons import Reason

MAX_ADDRESSES = 4
"""Addresses of one name that are tried, in the resolver's order."""


class Refused(Exception):
    """A gate said no before any socket was opened. `gate` is scheme, port or address (as in `transforms.schemas`)."""

    def __init__(self, gate: str, reason: Reason, detail: str, address: str | None = None) -> None:
        super().__init__(detail)
        self.gate = gate
        self.reason = reason
        self.detail = detail
        self.address = address


class ConnectFailed(Exception):
    """An admitted address did not answer. `reason` is CONNECT_FAILED, CONNECT_TIMEOUT or TLS_FAILED."""

    def __init__(self, reason: Reason, detail: str, address: str | None = None) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail
        self.address = address


@dataclass(frozen=True, slots=True)
class Admission:
    """A URL that passed, with every address that was checked. `connect_port` differs from the URL's in tests only."""

    target: Target
    addresses: tuple[str, ...]
    connect_port: int
    is_test: bool = False


class EgressGate:
    """Scheme, credentials, port, host, then every address of the name; a single address that is not public refuses all.

    `test_hosts` (demo and tests only) maps a name, `name:port`, or `*.domain` to a loopback address with or without a
    port; only those names may be loopback, and they are never looked up. `tls` overrides the trust store.
    """

    def __init__(
        self,
        allowed_ports: Collection[int] = (80, 443),
        *,
        resolver: Resolver | None = None,
        network: Network | None = None,
        test_hosts: Mapping[str, str] | None = None,
        test_ca_file: str | None = None,
    ) -> None:
        self._allowed_ports = tuple(allowed_ports)
        self._dns = resolver if isinstance(resolver, DnsCache) else DnsCache(resolver or SystemResolver())
        self._network = network or TrioNetwork()
        self._test_hosts = {name.lower(): _loopback(name, value) for name, value in (test_hosts or {}).items()}
        self._tls: ssl.SSLContext | None = None
        self._test_tls: ssl.SSLContext | None = None
        self._test_ca_file = test_ca_file

    def inspect(self, url: str) -> Target:
        """The gates that need no network. Raises `Refused`."""
        target = inspect_url(url, self._allowed_ports)
        if not isinstance(target, Target):
            reason, detail = target
            gate = {Reason.BAD_PORT: "port", Reason.BLOCKED_NETWORK: "address"}.get(reason, "scheme")
            raise Refused(gate, reason, detail)
        return target

    async def admit(self, url: str) -> Admission:
        """Resolve once and judge every address. Raises `Refused`; opens no connection."""
        return await self.admit_target(self.inspect(url))

    async def admit_target(self, target: Target) -> Admission:
        mapped = self._mapped(target) if self._test_hosts else None
        if mapped is not None:
            address, port = mapped
            return Admission(target, (address,), port or target.port, is_test=True)
        if target.is_ip:
            addresses: tuple[str, ...] = (target.host.strip("[]"),)
        else:
            answer = self._dns.peek(target.host) or await self._dns.resolve(target.host)
            if answer.failure is not None or not answer.addresses:
                raise Refused(
                    "address", answer.failure or Reason.DNS_NXDOMAIN, answer.detail or f"{target.host} has no address."
                )
            addresses = answer.addresses
        for address in addresses:
            why = refusal_of(address)
            if why is not None:
                raise Refused(
                    "address",
                    Reason.BLOCKED_NETWORK,
                    f"{target.host} is at {address}, which is not public ({why}).",
                    address,
                )
        return Admission(target, addresses[:MAX_ADDRESSES], target.port)

    async def connect(self, admission: Admission, timeout_s: float = 10.0) -> tuple[trio.abc.Stream, str]:
        """A connection to one of the checked addresses, TLS by name for https; the address comes with it.

        Raises `ConnectFailed`. The name is not looked up again, so an answer that changed meanwhile changes nothing.
        """
        deadline = trio.current_time() + timeout_s
        problem = ConnectFailed(Reason.CONNECT_FAILED, f"{admission.target.host} has no address.")
        for left, address in zip(range(len(admission.addresses), 0, -1), admission.addresses, strict=True):
            share = max(0.0, deadline - trio.current_time()) / left
            try:
                with trio.fail_after(share):
                    stream = await self._network.connect(address, admission.connect_port)
                break
            except trio.TooSlowError:
                problem = ConnectFailed(
                    Reason.CONNECT_TIMEOUT, f"{address} did not accept a connection within {share:.3g} s.", address
                )
            except OSError as e:
                problem = ConnectFailed(
                    Reason.CONNECT_FAILED, f"no connection to {address}: {_errno_text(e)}.", address
                )
        else:
            raise problem
        if admission.target.scheme == "http":
            return stream, address
        return await self._start_tls(stream, admission, address, deadline), address

    async def _start_tls(
        self, stream: trio.abc.Stream, admission: Admission, address: str, deadline: float
    ) -> trio.abc.Stream:
        name = admission.target.host.strip("[]").rstrip(".")
        tls = trio.SSLStream(stream, self._tls_context(admission.is_test), server_hostname=name, https_compatible=True)
        try:
            with trio.fail_at(deadline):
                await tls.do_handshake()
        except trio.TooSlowError:
            await trio.aclose_forcefully(stream)
            raise ConnectFailed(
                Reason.CONNECT_TIMEOUT, f"{address} did not finish the TLS handshake in time.", address
            ) from None
        except (trio.BrokenResourceError, ssl.SSLError, OSError) as e:
            await trio.aclose_forcefully(stream)
            cause = e.__cause__ if isinstance(e, trio.BrokenResourceError) and e.__cause__ is not None else e
            raise ConnectFailed(Reason.TLS_FAILED, f"TLS with {name} failed: {_tls_text(cause)}.", address) from None
        except BaseException:
            await trio.aclose_forcefully(stream)
            raise
        return tls

    def _tls_context(self, is_test: bool) -> ssl.SSLContext:
        # A context costs 30 to 40 ms: one for everybody. A test CA is trusted for test hosts alone.
        if is_test and self._test_ca_file:
            if self._test_tls is None:
                self._test_tls = ssl.create_default_context(cafile=self._test_ca_file)
            return self._test_tls
        if self._tls is None:
            self._tls = ssl.create_default_context()
        return self._tls

    def _mapped(self, target: Target) -> tuple[str, int | None] | None:
        host = target.host.rstrip(".")
        known = self._test_hosts.get(f"{host}:{target.port}") or self._test_hosts.get(host)
        while known is None and "." in host:
            host = host.split(".", 1)[1]
            known = self._test_hosts.get(f"*.{host}")
        return known


def _loopback(name: str, value: str) -> tuple[str, int | None]:
    address, _, port = value.rpartition(":") if value.count(":") == 1 else (value, "", "")
    try:
        ok = ip_address(address).is_loopback and (not port or 0 < int(port) < 65536)
    except ValueError:
        ok = False
    if not ok:
        raise PermanentError(
            f"test_hosts maps {name!r} to {value!r}: write a loopback address, as in '127.0.0.2:8000'."
        )
    return address, int(port) if port else None


def _errno_text(e: OSError) -> str:
    return os.strerror(e.errno) if e.errno else str(e) or type(e).__name__


@lru_cache(maxsize=256)
def _short(text: str) -> str:
    return text if len(text) <= 160 else text[:157] + "..."


def _tls_text(cause: BaseException) -> str:
    if isinstance(cause, ssl.SSLCertVerificationError):
        return _short(cause.verify_message)
    if isinstance(cause, ssl.SSLError) and cause.reason:
        return cause.reason.lower().replace("_", " ")
    return _short(str(cause) or type(cause).__name__)
