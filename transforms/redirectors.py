"""Links that go through the source's own redirector (`/go/…`, `/out?url=…`): which of a page's links may be such, where they
must lead, and what an answer proves. Pure rules. Here: candidates, goals, verdicts. Not here: requests (`crawl`), keeping
and reusing answers (`assets.redirect_checks`), matching (`transforms.matching`).

A link counts for a target only by what the web says: a request to the redirector, and redirects that reach the target. So
nothing is concluded from a URL that merely looks so; looks decide what is worth a request.

| a link of the page's own site (registrable domain, or host) that | is asked | and unless it answers, its edges are |
|---|---|---|
| was proven in an earlier window | first; within its time the old answer stands | not called missing |
| names the target: URL or host, percent-encoded or in base64 | next | not called missing |
| has a redirector's path and nothing better is known | last | not called missing only if they were last found through a redirector |

Only for edges that no direct link stands for. A guess by shape alone does not hold back a miss: a link through a redirector
counts only when proven (the project's rule), and a site whose `/go/` is closed to robots would never lose a link again.

Nothing is asked whose URL says that it does something: signing in or out, deleting, buying, voting (`is_harmless`).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

import polars as pl

from transforms.matching.tolerance import bare_host, url_parts
from transforms.reasons import Outcome, Reason
from transforms.targets import Scope, Target, covering
from transforms.urls import identify

MAX_PER_PAGE = 5
"""Requests to redirectors of one page in one window."""
MAX_PER_BATCH = 2_000
"""And of one window x shard."""

PROVEN, NAMED, SHAPE = "proven", "named", "shape"
_ORDER = {PROVEN: 0, NAMED: 1, SHAPE: 3}
_HOST_ONLY = 2
"""Between a link that names the target's whole URL and one of which only the path is known."""

_SHAPES = (
    r"go|goto|out|outbound|outgoing|redirect|redirects|redir|redirection|r|rd|link|click|clicks|clickout|exit|leave|away|visit|jump|"
    r"external|ext|track|tracker|recommends|recommend|refer|aff|affiliate|partner|l\.php|out\.php|go\.php|redirect\.php|redir\.php|"
    r"away\.php|click\.php|link\.php|exit\.php|url"
)
_SHAPE = rf"(?i)^https?://[^/?#]+/(?:[^/?#]+/)?(?:{_SHAPES})(?:/[^/?#]+/?(?:\?.*)?$|/?\?.)"
"""Such a segment, first or second in the path, and after it what tells one target from another: a slug or a query."""

_ACTS = frozenset({
    "login", "signin", "signup", "register", "subscribe", "optin", "cancel", "add", "addtocart", "cart", "basket", "checkout", "buy",
    "purchase", "order", "pay", "payment", "donate", "vote", "upvote", "downvote", "like", "dislike", "flag", "report", "rate", "rating",
    "follow", "unfollow", "edit", "save", "post", "submit", "admin", "wpadmin", "wplogin", "confirm", "verify", "activate",
    "deactivate", "reset", "password", "token", "nonce", "wpnonce", "csrf", "csrftoken", "trash",
})  # fmt: skip
"""Whole segments of a path, names or values of parameters (without `-` and `_`) that say that asking does something."""
_ALWAYS = frozenset(["logout", "logoff", "signout", "unsubscribe", "optout", "delete", "remove", "destroy"])
"""And those that say so in company too (`/delete-account`)."""
_BASE64_URL = re.compile(r"aHR0c[A-Za-z0-9+/_\-]{8,}={0,2}")
"""`http` in base64."""
_HEAD = 500
"""Links of one page that are looked at closely."""


@dataclass(frozen=True)
class Candidate:
    """A link that is worth a request."""

    source_url_id: int
    source_url: str
    link_identity: str
    position: int
    why: str
    edges: tuple[int, ...]
    waiting_edges: tuple[int, ...]
    """Subset of `edges` that a miss of must wait for the answer."""


class Goal:
    """Where the redirectors of one page must lead: to the target of one of its edges, tolerantly as a direct link.

    A project that says strict anywhere is taken at its word only in matching; of its targets the exact identity is
    the goal, so that a redirect to another spelling is followed on.
    """

    def __init__(self, exact: Iterable[str], tolerant_keys: Iterable[str], rules: Sequence[Target]) -> None:
        self._exact, self._keys, self._rules = frozenset(exact), frozenset(tolerant_keys), tuple(rules)

    @classmethod
    def of_any(cls, goals: Iterable[Goal]) -> Goal:
        """The goal of a redirector that stands on several pages."""
        every = list(goals)
        return cls(
            (url for goal in every for url in goal._exact),
            (key for goal in every for key in goal._keys),
            list(dict.fromkeys(rule for goal in every for rule in goal._rules)),
        )

    def __call__(self, url: str) -> bool:
        """Does a redirect to this URL reach the goal?"""
        found = identify(url)
        if found.identity is None:
            return False
        if found.identity in self._exact:
            return True
        frame = pl.DataFrame({"url": [found.identity]})
        if self._keys and url_parts(frame)["exact_key"].item() in self._keys:
            return True
        if not self._rules:
            return False
        named = pl.DataFrame({"identity": [found.identity], "host": [found.host], "site": [found.site]})
        return covering(self._rules, named).item() is not None


def goals(edges: pl.DataFrame, rules: pl.DataFrame) -> dict[int, Goal]:
    """The goal of each source. `edges`: `EXPECTED_EDGES` rows that no direct link stands for; `rules`: `TARGET_RULES`."""
    strict = set(rules.filter("is_strict")["project_id"].to_list())
    keys = _exact_keys(edges["target_url"])
    of_project: dict[bytes, list[Target]] = defaultdict(list)
    for row in rules.unique("project_target_id", keep="last").iter_rows(named=True):
        of_project[row["project_id"]].append(
            Target(
                Scope(row["scope"]), row["host"], row["registrable_domain"], row["url"], row["include_subdomains"],
                row["is_strict"],
            )
        )  # fmt: skip
    exact: dict[int, set[str]] = defaultdict(set)
    tolerant: dict[int, set[str]] = defaultdict(set)
    targets: dict[int, list[Target]] = defaultdict(list)
    for row in edges.select("source_url_id", "project_id", "target_url", "any_target").iter_rows(named=True):
        source = row["source_url_id"]
        if row["any_target"]:
            targets[source] += of_project[row["project_id"]]
        elif row["project_id"] in strict:
            exact[source].add(row["target_url"])
        else:
            tolerant[source].add(keys[row["target_url"]])
    return {
        source: Goal(exact[source], tolerant[source], targets[source])
        for source in edges["source_url_id"].unique().to_list()
    }


def own_redirectors(links: pl.DataFrame, pages: pl.DataFrame, target_hosts: pl.Series) -> pl.DataFrame:
    """Links worth a closer look: of the page's own site, and shaped like a redirector or naming one of `target_hosts`.

    `links`: `LINK_MANIFESTS` columns; `pages`: `source_url_id`, `site` (the source's registrable domain), `document_url`.
    Adds `text` (path and query, percent- and base64-decoded) and `is_shape`. One row per source and identity, the first.
    """
    names = bare_hosts(target_hosts)
    own = (
        links.lazy()
        .filter(pl.col("kind").is_in(["a", "area"]) & pl.col("identity").str.starts_with("http"))
        .join(
            pages.lazy().select("source_url_id", "site", here=pl.col("document_url").str.extract(_HOST, 1)),
            on="source_url_id",
        )
        .filter((pl.coalesce("registrable_domain", "host") == pl.col("site")) | (pl.col("host") == pl.col("here")))
        .sort("source_url_id", "position")
        .unique(["source_url_id", "identity"], keep="first", maintain_order=True)
        .with_columns(text=pl.col("identity").str.extract(r"^[^/]+//[^/?#]*(.*)$", 1))
        .filter(pl.col("text").str.len_bytes() > 1)
        .with_columns(is_shape=pl.col("identity").str.contains(_SHAPE))
        .collect()
    )
    encoded = pl.col("text").str.contains("%", literal=True) | pl.col("text").str.contains("aHR0c", literal=True)
    texts = own.filter(encoded)["text"].unique()
    plain = pl.DataFrame(
        {"text": texts, "plain": [readable(text) for text in texts]}, schema={"text": pl.String, "plain": pl.String}
    )
    own = own.join(plain, on="text", how="left", maintain_order="left").with_columns(text=pl.coalesce("plain", "text"))
    named = (
        pl.col("text").str.contains_any(names.implode(), ascii_case_insensitive=True)
        if names.len()
        else pl.lit(value=False)
    )
    return (
        own.with_columns(is_named=named)
        .filter(pl.col("is_shape") | pl.col("is_named"))
        .filter(pl.int_range(pl.len()).over("source_url_id") < _HEAD)
        .select("source_url_id", "identity", "position", "text", "is_shape", "is_named")
    )


_HOST = r"^[^:/?#]+://([^/?#:]*)"


def bare_hosts(hosts: pl.Series) -> pl.Series:
    """Distinct hosts without a leading `www.`, lower case."""
    return pl.select(bare_host(pl.lit(hosts.drop_nulls().unique())).str.to_lowercase()).to_series().unique()


def readable(text: str) -> str:
    """A path and query with what is encoded in it spelled out: percent-encoding (twice, as trackers nest it), and URLs in base64."""
    for _ in range(2):
        text = unquote(text, errors="replace")
    for found in _BASE64_URL.findall(text):
        body = found.rstrip("=").replace("-", "+").replace("_", "/")
        try:
            decoded = base64.b64decode(body[: len(body) // 4 * 4] + _tail(body)).decode("utf-8", "replace")
        except (binascii.Error, ValueError):
            continue
        text += " " + unquote(decoded, errors="replace")
    return text


def _tail(body: str) -> str:
    rest = body[len(body) // 4 * 4 :]
    return rest + "=" * (4 - len(rest)) if len(rest) > 1 else ""


def is_harmless(identity: str) -> bool:
    """False: the URL's own path or parameters say that asking for it does something. What a redirector carries as its target's
    URL does not count, nor does a word within a slug (`/go/best-order-book`)."""
    path, _, query = identity.partition("://")[2].partition("/")[2].partition("?")
    path = re.split(r"(?i)https?(?::|%3a)", path, maxsplit=1)[0]
    names = path.split("/")
    for part in query.split("&"):
        name, _, value = part.partition("=")
        names += [name, value if not re.search(r"[%/.]", value) else ""]
    return not any(_acts(name.lower()) for name in names)


def _acts(name: str) -> bool:
    stem = re.sub(r"\.(?:php|aspx?|jsp|html?|cgi)$", "", name)
    words = re.split(r"[-_.]+", stem)
    return "".join(words) in _ACTS | _ALWAYS or not _ALWAYS.isdisjoint(words)


def candidates(
    found: pl.DataFrame, edges: pl.DataFrame, rules: pl.DataFrame, proven: set[tuple[int, str]]
) -> list[Candidate]:
    """What to ask, page by page, the likeliest first.

    `found`: from `own_redirectors`; `edges`: `EXPECTED_EDGES` rows that no direct link stands for; `proven`:
    (source_url_id, link identity) that led to a target in an earlier window. Not bounded: see `MAX_PER_PAGE`.
    """
    hosts_of = _rule_hosts(rules)
    keys = _exact_keys(edges["target_url"])
    by_source: dict[int, list[dict[str, object]]] = defaultdict(list)
    columns = ["source_url_id", "source_url", "backlink_id", "project_id", "target_url", "any_target", "was_redirected"]
    for row in edges.select(columns).iter_rows(named=True):
        by_source[row["source_url_id"]].append(row)
    ranked: list[tuple[int, int, int, Candidate]] = []
    for link in found.iter_rows(named=True):
        source, identity, text = link["source_url_id"], link["identity"], link["text"].lower()
        wanted = by_source.get(source)
        if not wanted or not is_harmless(identity):
            continue
        all_edges = tuple(int(str(edge["backlink_id"])) for edge in wanted)
        names = [_named(text, edge, keys, hosts_of) for edge in wanted]
        best = min((rank for rank in names if rank is not None), default=None)
        is_proven = (source, identity) in proven
        if not (is_proven or best is not None or link["is_shape"]):
            continue
        why = PROVEN if is_proven else NAMED if best is not None else SHAPE
        waiting = tuple(
            edge_id
            for edge_id, edge, rank in zip(all_edges, wanted, names, strict=True)
            if rank is not None or edge["was_redirected"] or (is_proven and len(wanted) == 1)
        )
        rank = _ORDER[why] if why != NAMED or best is None else best
        made = Candidate(source, str(wanted[0]["source_url"]), identity, link["position"], why, all_edges, waiting)
        ranked.append((source, rank, link["position"], made))
    ranked.sort(key=lambda each: each[:3])
    return [each for *_, each in ranked]


def _named(text: str, edge: dict[str, object], keys: dict[str, str], hosts_of: dict[object, list[str]]) -> int | None:
    """How well a redirector's URL names an edge's target; None: not at all."""
    if edge["any_target"]:
        return _HOST_ONLY if any(host in text for host in hosts_of.get(edge["project_id"], ())) else None
    key = keys[str(edge["target_url"])].lower()
    host = key.partition("/")[0].partition("?")[0]
    if key in text:
        return _ORDER[NAMED]
    return _HOST_ONLY if _has_host(text, host) else None


def _has_host(text: str, host: str) -> bool:
    """The host stands in the text as a name of its own, not as the end of a longer label."""
    at = text.find(host)
    while at >= 0:
        after = text[at + len(host) : at + len(host) + 1]
        if (at == 0 or not (text[at - 1].isalnum() or text[at - 1] == "-")) and not (
            after.isalnum() or after in ("-", ".")
        ):
            return True
        at = text.find(host, at + 1)
    return False


def _rule_hosts(rules: pl.DataFrame) -> dict[object, list[str]]:
    hosts: dict[object, list[str]] = defaultdict(list)
    for project, host in rules.select("project_id", pl.col("host").str.to_lowercase()).unique().iter_rows():
        hosts[project].append(host.removeprefix("www."))
    return hosts


def _exact_keys(urls: pl.Series) -> dict[str, str]:
    """What a tolerant comparison looks at, by URL."""
    frame = pl.DataFrame({"url": urls.unique()}, schema={"url": pl.String})
    if not frame.height:
        return {}
    parts = url_parts(frame)
    return dict(zip(parts["url"], parts["exact_key"], strict=True))


def is_conclusive(outcome: str, reason: str) -> bool:
    """The redirector was asked and answered for good: a page, or nothing there. Anything else (robots, a block, a failure, no
    time) leaves it open where it leads."""
    return outcome in (Outcome.FETCHED.value, Outcome.GONE.value) or reason in _ANSWERED


_ANSWERED = frozenset({Reason.UNSUPPORTED_TYPE.value, Reason.EMPTY_BODY.value})
