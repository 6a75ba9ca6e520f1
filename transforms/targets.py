"""What a project monitors: target definitions, and which URLs they cover.

Here: parsing what a person writes after `--target`, the key under which a target is unique in a project, and coverage
of a column of URLs (set-based, polars). Not here: matching manifests with edges (`transforms.matching`), storing
(`warehouse.ledger`).

| written | scope | covers |
|---|---|---|
| `example.com`, `*.example.com` | domain | the registrable domain and all hosts below it |
| `blog.example.com`, `https://blog.example.com` | subdomain | that host and all hosts below it |
| `https://example.com/path/*` | url_prefix | URLs that begin so |
| `https://example.com/page` | exact_url | that URL |

Unless a target is strict, http and https are alike, a leading `www.` of the host and click-tracking parameters do not
count, and on exact_url neither does a trailing slash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import polars as pl

from transforms.errors import PermanentError
from transforms.urls import identify

TRACKING_PARAMETERS = (
    r"utm_[a-z0-9_]+|gclid|gclsrc|gbraid|wbraid|dclid|fbclid|msclkid|yclid|twclid|ttclid|li_fat_id|igshid|igsh|mc_cid|mc_eid|_hsenc|_hsmi|"
    r"mkt_tok|vero_id|oly_anon_id|oly_enc_id|srsltid|epik|_openstat|ysclid|rb_clickid|s_kwcid|wickedid"
)
"""Parameters that only say where a click came from, as a regular expression over the name."""

_IS_TRACKING = rf"(?i)^(?:{TRACKING_PARAMETERS})(?:=|$)"
"""One whole `name=value` or `name` of a query; `&` alone stands between two (WHATWG URL §5.1), a `;` belongs to a value."""


class Scope(StrEnum):
    DOMAIN = "domain"
    SUBDOMAIN = "subdomain"
    URL_PREFIX = "url_prefix"
    EXACT_URL = "exact_url"


class BadTarget(PermanentError):
    """A target that cannot be understood; the message quotes it."""


@dataclass(frozen=True)
class Target:
    """One target definition."""

    scope: Scope
    host: str
    """ASCII; of a domain target the registrable domain itself."""
    registrable_domain: str
    """Registrable domain of the host; the host itself where there is none (an IP address)."""
    url: str | None = None
    """Identity of the prefix or the exact URL; None for domain and subdomain."""
    include_subdomains: bool = True
    is_strict: bool = False

    @property
    def target_key(self) -> bytes:
        """`project_targets.target_key`: what makes two definitions the same one in a project. 32 bytes."""
        what = self.url if self.url is not None else self.host
        return hashlib.sha256(f"target:v1:{self.scope}:{what}:{int(self.include_subdomains)}".encode()).digest()

    @property
    def landing_url(self) -> str:
        """The URL that stands for the target where an edge needs one and nothing more is known."""
        return self.url if self.url is not None else f"https://{self.host}/"

    @property
    def is_one_url(self) -> bool:
        return self.scope is Scope.EXACT_URL

    def __str__(self) -> str:
        """As a person would write it."""
        if self.scope is Scope.URL_PREFIX:
            return f"{self.url}*"
        return self.url if self.url is not None else self.host


def domain_target(registrable_domain: str) -> Target:
    """The target that covers a registrable domain (or an IP address) and everything below it."""
    return Target(Scope.DOMAIN, registrable_domain, registrable_domain)


def parse_target(written: str, *, is_strict: bool = False) -> Target:
    """What a person wrote after `--target` (see the table above). Raises `BadTarget`."""
    text = written.strip()
    has_scheme = "://" in text
    star = text.endswith("*")
    body = text.removesuffix("*")
    wildcard = not has_scheme and body.startswith("*.")
    body = body.removeprefix("*.") if wildcard else body
    if not body or "*" in body or any(c.isspace() for c in body):
        raise BadTarget(
            f"Target {_quoted(written)} is not understood: write a domain, a URL, or a URL prefix that ends in *."
        )
    found = identify(body if has_scheme else f"https://{body}")
    if (
        found.identity is None
        or found.host is None
        or found.site is None
        or ("." not in found.host and not found.is_ip)
    ):
        why = f" ({found.reason})" if found.reason else ""
        raise BadTarget(
            f"Target {_quoted(written)} is neither a domain nor an http(s) URL{why}: write example.com or https://example.com/page."
        )
    if "credentials" in found.flags:
        raise BadTarget(f"Target {_quoted(written)} carries a user name: write it without.")
    after_host = body.split("://", 1)[-1]
    bare = "/" not in after_host and "?" not in after_host
    if bare and (not star) and not found.port:
        if wildcard or found.host == found.registrable_domain or found.is_ip:
            return Target(
                Scope.DOMAIN if found.host == found.site else Scope.SUBDOMAIN,
                found.host,
                found.site,
                is_strict=is_strict,
            )
        return Target(Scope.SUBDOMAIN, found.host, found.site, is_strict=is_strict)
    scope = Scope.URL_PREFIX if star else Scope.EXACT_URL
    return Target(scope, found.host, found.site, found.identity, include_subdomains=False, is_strict=is_strict)


def comparison_key(identity: pl.Expr, *, drop_slash: bool = False) -> pl.Expr:
    """What of an identity counts for a tolerant target: no scheme, no `www.`, no click-tracking parameters.

    `drop_slash` takes one trailing slash off the path too (exact_url). A query that only held tracking goes.
    """
    parts = identity.str.replace(r"^https?://(?:www\.([^./?#:]+\.[^/?#:]))?", "$1").str.splitn("?", 2)
    path, query = parts.struct.field("field_0"), parts.struct.field("field_1")
    if drop_slash:
        path = path.str.strip_suffix("/")
    kept = query.str.split("&").list.eval(pl.element().filter(~pl.element().str.contains(_IS_TRACKING))).list.join("&")
    return pl.when(query.is_null() | ((kept == "") & (query != ""))).then(path).otherwise(path + "?" + kept)


def bare_host(host: pl.Expr) -> pl.Expr:
    """A host without a leading `www.`, where a name with a dot is left."""
    return host.str.replace(r"^www\.([^.]+\..)", "$1")


def covering(
    targets: Sequence[Target], urls: pl.DataFrame, *, identity: str = "identity", host: str = "host"
) -> pl.Series:
    """For each row of `urls` the position of the first target that covers it, or null. UInt32, named `target`.

    `urls` needs the columns of identities and of their hosts, as `transforms.urls.identify_many` gives them. Cost: one
    vectorised comparison a target; many domain targets cost one look-up when there is a column `site`.
    """
    domains: dict[str, int] = {}
    rest: list[tuple[int, Target]] = []
    for position, target in enumerate(targets):
        if target.scope is Scope.DOMAIN and target.include_subdomains and not target.is_strict:
            domains.setdefault(target.host, position)
        else:
            rest.append((position, target))
    found = pl.lit(None, pl.UInt32)
    if domains and len(domains) > 8:
        # Many domains (one a registrable domain of the file): one look-up instead of a comparison each.
        names = list(domains)
        if "site" in urls.columns:
            found = pl.col("site").replace_strict(names, list(domains.values()), default=None, return_dtype=pl.UInt32)
        else:
            rest += [(position, targets[position]) for position in domains.values()]
    else:
        rest += [(position, targets[position]) for position in domains.values()]
    frame = urls.select(pl.col(identity).alias("identity"), pl.col(host).alias("host"), found.alias("by_domain"))
    hits = [pl.when(_covers(target)).then(pl.lit(position, pl.UInt32)) for position, target in rest]
    return frame.select(pl.min_horizontal(pl.col("by_domain"), *hits).cast(pl.UInt32).alias("target")).to_series()


def _covers(target: Target) -> pl.Expr:
    identity, host = pl.col("identity"), pl.col("host")
    if target.url is None:
        wanted = target.host if target.is_strict else pl.select(bare_host(pl.lit(target.host))).item()
        have = host if target.is_strict else bare_host(host)
        here = have == wanted
        return here | host.str.ends_with("." + target.host) if target.include_subdomains else here
    if target.is_strict:
        return identity == target.url if target.scope is Scope.EXACT_URL else identity.str.starts_with(target.url)
    exact = target.scope is Scope.EXACT_URL
    wanted_key = pl.select(comparison_key(pl.lit(target.url), drop_slash=exact)).item()
    key = comparison_key(identity, drop_slash=exact)
    return key == wanted_key if exact else key.str.starts_with(wanted_key)


def _quoted(text: str) -> str:
    text = "".join(c if c.isprintable() else "�" for c in text)
    return f"“{text[:80]}{'…' if len(text) > 80 else ''}”"
