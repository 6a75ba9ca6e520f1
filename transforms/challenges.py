"""Pages that stand between robots and the content: challenges, block pages and consent walls. Here: their documented
markers, and where they count. Not here: what follows from them (evidence `none`, with a reason).

Only markers that a vendor documents or that its interstitial cannot do without are used, never the vendor's beacon
that ordinary pages behind the same vendor carry too (`/cdn-cgi/challenge-platform/scripts/jsd/`, `js.datadome.co`,
`_Incapsula_Resource?SWJIYLWA`, `*.awswaf.com/…/challenge.js`, `client.px-cdn.net`). A marker counts anywhere in the
body: interstitials are padded. Bytes are searched, not a tree: the markers are ASCII in every encoding the web uses.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urlsplit


class Kind(StrEnum):
    CHALLENGE = "challenge"
    CONSENT = "consent"


@dataclass(frozen=True, slots=True)
class Marker:
    """What was recognised: `name` says by whom and how, e.g. `cloudflare challenge`."""

    kind: Kind
    name: str


_HEADERS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    # header, value (any of; empty: any value), name
    ("cf-mitigated", ("challenge",), "cloudflare challenge"),  # developers.cloudflare.com, "Detect a Challenge Page"
    ("x-amzn-waf-action", ("challenge", "captcha"), "aws waf challenge"),  # docs.aws.amazon.com, WAF token labels
    ("x-vercel-mitigated", ("challenge",), "vercel checkpoint"),
    ("sg-captcha", ("challenge",), "siteground captcha"),
)

_GATES: tuple[tuple[bytes, tuple[tuple[bytes, str], ...]], ...] = (
    # A short string that all its markers hold, so that an ordinary page costs a few fast searches.
    (
        b"_challenge",
        (
            (b"/_sec/cp_challenge/", "akamai challenge"),
            (b'id="anubis_challenge"', "anubis challenge"),
        ),
    ),
    (b"_cf_chl_opt", ((b"window._cf_chl_opt", "cloudflare challenge"),)),
    (
        b"captcha",
        (
            (b"geo.captcha-delivery.com", "datadome challenge"),
            (b"ct.captcha-delivery.com", "datadome challenge"),
            (b'id="px-captcha"', "human (perimeterx) challenge"),
            (b"/.well-known/sgcaptcha/", "siteground captcha"),
        ),
    ),
    (
        b"ncapsula",
        (
            (b"Incapsula incident ID", "imperva block page"),
            (b"/_Incapsula_Resource?SWUDNSAI=", "imperva challenge"),
        ),
    ),
)

_MAX_TEXT = 4_000
"""A page with more text than this is an ordinary page (an article about challenges), as in `transforms.html.challenge`,
which looks again, with the parsed page before it."""
_SMALL = 24 * 1024
_SMALL_MARKERS: tuple[tuple[bytes, str], ...] = (
    # Vendors whose pages are never large: searched in small bodies alone.
    (b"window.gokuProps", "aws waf challenge"),
    (b"sucuri_cloudproxy_js", "sucuri challenge"),
    (b"/ips.js?KP_UIDz=", "kasada challenge"),
    (b"<title>DDoS-Guard</title>", "ddos-guard challenge"),
    (b"/.well-known/ddos-guard/js-challenge", "ddos-guard challenge"),
    (b"Vercel Security Checkpoint", "vercel checkpoint"),
    (b"The requested URL was rejected. Please consult with your administrator.", "f5 block page"),
    (b"our systems have detected unusual traffic from your computer network", "google sorry page"),
)

_CONSENT_BODY = 16 * 1024
_CONSENT_LINKS = 12
_CONSENT_MARKERS: tuple[tuple[bytes, str], ...] = (
    (b"sp_message_container_", "sourcepoint consent wall"),
    (b"cdn.privacy-mgmt.com", "sourcepoint consent wall"),
    (b"https://consent.google.com/save", "google consent page"),
    (b"https://consent.youtube.com/save", "google consent page"),
    (b"consent.yahoo.com/v2/collectConsent", "yahoo consent page"),
    (b'action="/consent"', "consent form"),
)
_CONSENT_HOSTS = (
    "consent.google.",
    "consent.youtube.com",
    "consent.yahoo.com",
    "guce.yahoo.com",
    "guce.advertising.com",
    "guce.aol.com",
    "myprivacy.dpgmedia.",
)
_SORRY = ("/sorry/index",)


def find_challenge(
    body: bytes, headers: Iterable[tuple[str, str]] = (), final_url: str | None = None, asked_url: str | None = None
) -> Marker | None:
    """The marker of a challenge or consent page in a final response, or None.

    `headers` are (lower-case name, value). A consent page is one that a redirect to a known consent host led to, or a
    small page with hardly a link whose consent platform is the content: consent platforms also sit on ordinary pages.
    """
    for name, value in headers:
        for header, values, what in _HEADERS:
            if name == header and value.strip().lower() in values:
                return Marker(Kind.CHALLENGE, what)
    named = next((what for gate, markers in _GATES if gate in body for marker, what in markers if marker in body), None)
    if named is None and len(body) <= _SMALL:
        named = next((what for marker, what in _SMALL_MARKERS if marker in body), None)
    if named is not None and _text_bytes(body) <= _MAX_TEXT:
        return Marker(Kind.CHALLENGE, named)
    if final_url is not None and final_url != asked_url:
        found = _by_url(final_url)
        if found is not None:
            return found
    if len(body) <= _CONSENT_BODY:
        for marker, what in _CONSENT_MARKERS:
            if marker in body and body.count(b"<a ") <= _CONSENT_LINKS:
                return Marker(Kind.CONSENT, what)
    return None


def _text_bytes(body: bytes) -> int:
    """Roughly the visible text: what is outside tags, scripts and styles. Linear, for hostile bytes too."""
    total = 0
    for part in body.split(b"<"):
        if not part[:6].lower().startswith((b"script", b"style")):
            total += len(part) - part.find(b">") - 1
    return total


def _by_url(url: str) -> Marker | None:
    """A redirect ended at a host that only asks."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if host.startswith(_CONSENT_HOSTS):
        return Marker(Kind.CONSENT, f"consent page at {host}")
    if ".google." in f".{host}" and parts.path.startswith(_SORRY):
        return Marker(Kind.CHALLENGE, "google sorry page")
    return None
