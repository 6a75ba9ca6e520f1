"""What a page of the scripted web says: status, headers and decoded body, as a function of (host, path, window).

Here: HTML that looks like what people publish (navigation, prose, sidebar, footer), robots.txt, and the pages that
stand in for others (challenge, consent wall, maintenance, script shell, soft 404). Not here: connections, content encodings and
misbehaviour on the wire (`server`, `behaviours`). Nothing is random: the same arguments give the same bytes.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import lru_cache
from html import escape
from typing import Any
from urllib.parse import urljoin

from orchestration.demo.scenario.model import Host, Page, Scenario

Headers = tuple[tuple[str, str], ...]

HUGE_BYTES = 11 * 1024 * 1024
"""Size of a `huge` page: more than the 10 MiB that a crawler reads."""

PROSE: dict[str, tuple[str, ...]] = {
    "garden": (
        "The beds were still wet when we came out on Saturday, so we started with the paths.",
        "Slugs like a tidy edge less than a heap of old boards, and that is where we look for them.",
        "Beans that are sown too early sulk for a fortnight and are overtaken by those sown late.",
        "A barrel under the gutter fills in one good storm and lasts until the middle of July.",
        "We turned the heap twice this month, and it was warm enough to steam in the morning.",
        "Nobody needs more than four courgette plants, and everybody grows six.",
        "The clay holds water well and roots badly; two years of leaf mould made the difference.",
        "Tie the tomatoes loosely, because the stems will be twice as thick in August.",
        "My neighbour sows by the moon and I sow by the weather, and we harvest on the same day.",
        "A cold frame from an old window costs nothing and adds three weeks at either end.",
    ),
    "kitchen": (
        "Let the dough rest until it holds the print of a finger, however long that takes.",
        "Thyme goes in early and basil goes in last, off the heat.",
        "The oven at my mother's house is thirty degrees hotter than it says it is.",
        "Salt the aubergines if you like the ritual; modern ones are hardly bitter.",
        "A blunt knife is what cuts people, and a steel takes half a minute.",
        "We served it with bread from the day before, fried in what was left in the pan.",
        "Butter should be cold for pastry and soft for cake, and mine is always the other one.",
        "Taste it before you add the lemon, and once more afterwards.",
    ),
    "outdoors": (
        "The trail leaves the road behind the chapel and climbs for an hour without a view.",
        "Dry wood is under the spruces, where the rain does not reach.",
        "We carried too much, as ever, and used the small things every day.",
        "Measure twice and mark with a knife, since a pencil line has a width.",
        "The old workbench had a twist of a centimetre over two metres.",
        "Pack the stove where it can be reached without emptying the whole bag.",
        "Oil the steel before winter, and again when the first frost has gone.",
        "The ford is knee-deep in June and not to be tried in April.",
    ),
    "news": (
        "The council will decide on Thursday whether the market may stay on the square.",
        "Visitors came from three counties, and the car park was full by ten.",
        "Prices have risen by a fifth since last spring, traders say.",
        "Readers wrote in with suggestions, of which we print the shortest.",
        "The prize went to a school class for the second year in a row.",
        "An earlier version of this story gave the wrong year for the founding of the club.",
        "Two of the five firms on our list have changed hands since we last looked.",
        "The committee thanks all who lent a hand, a van or a tent.",
    ),
    "tools": (
        "Forged in one piece, ground by hand and guaranteed for twenty-five years.",
        "The handle is ash from managed woods, oiled and not varnished.",
        "Orders placed before noon leave our workshop on the same day.",
        "Spare parts for every tool that we have made since 1987 are in stock.",
        "Measured, weighed and tested in our own gardens before it is sold in yours.",
        "Send it back within a hundred days if it does not suit you.",
    ),
    "data": (
        "A dashboard that nobody opens is a cost without a report.",
        "We moved the nightly job to the hour after the export, and the gaps went away.",
        "The median tells you about the visitors and the mean about the robots.",
        "Late events are not lost events; count them where they belong.",
        "Schema changes are announced on a page that nobody reads, so we diff it.",
        "Keep the raw rows, because every question after the first one needs them.",
        "Two sources that always agree are usually one source.",
        "Name a metric after what it counts and not after what you hope for.",
    ),
    "german": (
        "Im März wird der Boden gelockert, im April gesät, und im Mai fürchtet man die Eisheiligen.",
        "Gute Werkzeuge müssen nicht teuer sein, aber sie dürfen nicht wackeln.",
        "Die Gießkanne mit dem langen Hals kostet 24,90 € und hält ewig – so heißt es.",
        "Über die Größe der Beete streiten sich die Nachbarn schon seit Jahren.",
        "Wer Möhren neben Zwiebeln sät, hat weniger Ärger mit der Möhrenfliege.",
        "Das Häuschen hinter der Hecke wurde frisch gestrichen, „taubenblau“ natürlich.",
    ),
    "japanese": (
        "春の庭は雨の翌朝がいちばん美しい。",
        "古い道具は手入れをすれば長く使える。",
        "鋏は使うたびに拭いて油をさす。",
        "苗を植える前に土をよく混ぜておく。",
        "夏の水やりは朝早くか夕方に行う。",
        "落ち葉は捨てずに堆肥にする。",
    ),
}

NAVIGATION = (
    ("/", "Home"),
    ("/about", "About"),
    ("/archive", "Archive"),
    ("/topics", "Topics"),
    ("/contact", "Contact"),
)


@dataclass(frozen=True)
class Answer:
    """What a page says in a window. `body` is decoded; `do` names what the wire does with it (see `behaviours`)."""

    status: int
    headers: Headers
    body: bytes
    do: str = "page"
    spec: dict[str, Any] = field(default_factory=dict, hash=False, compare=False)


def link_html(link: dict[str, Any]) -> str:
    """An `<a>` from a link of the scenario: href, anchor or img (its alt), rel."""
    rel = f' rel="{escape(link["rel"])}"' if "rel" in link else ""
    if "img" in link:
        inside = f'<img src="/img/{len(link["img"])}.jpg" width="320" height="200" alt="{escape(link["img"])}">'
    else:
        inside = escape(link["anchor"], quote=False)
    return f'<a href="{escape(link["href"])}"{rel}>{inside}</a>'


def _prose(topic: str, seed: str, count: int) -> list[str]:
    pool = PROSE[topic]
    start = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:2])
    return [pool[(start + index) % len(pool)] for index in range(count)]


def _filler(count: int) -> list[str]:
    return [
        f'<li><a href="http://neighbour-{index:04}.example/">Neighbour {index:04}</a></li>' for index in range(count)
    ]


def render(host: Host, page: Page, spec: dict[str, Any]) -> str:
    """The HTML of a page as a string (its encoding comes later)."""
    topic = spec.get("topic", "news")
    title = spec.get("title") or page.path.strip("/?").replace("/", ", ").replace("-", " ").capitalize() or host.site
    by_place: dict[str, list[str]] = {"content": [], "sidebar": [], "footer": [], "header": []}
    for link in spec.get("links", ()):
        by_place[link.get("in", "content")].append(link_html(link))

    head = [f"<title>{escape(title)}</title>", '<meta name="viewport" content="width=device-width, initial-scale=1">']
    match spec.get("charset_in", "meta" if "charset" not in spec else ""):
        case "meta":
            head.insert(0, f'<meta charset="{spec.get("charset", "utf-8")}">')
        case "header":
            head.insert(0, '<meta charset="utf-8">')  # wrong on purpose: the header has precedence
        case "late_meta":
            head += [
                f"<!-- {'layout engine settings, kept for editors; ' * 30}-->",
                f'<meta charset="{spec["charset"]}">',
            ]
    if "robots" in spec:
        head.append(f'<meta name="robots" content="{escape(spec["robots"])}">')
    if "canonical" in spec:
        head.append(f'<link rel="canonical" href="{escape(spec["canonical"])}">')
    head.append(spec.get("head_html", ""))

    bare = spec.get("bare", False)
    sentences = _prose(topic, page.url, 2 if bare else 16)
    paragraphs = [f"<p>{' '.join(sentences[index : index + 2])}</p>" for index in range(0, len(sentences), 2)]
    for index, html in enumerate(by_place["content"]):
        paragraphs.insert(min(len(paragraphs), 2 + 2 * index), f"<p>{sentences[0]} {html}, as we said before.</p>")
    paragraphs.insert(min(len(paragraphs), 3), spec.get("content_html", ""))
    filler = _filler(spec.get("filler_links", 0))
    half = len(filler) // 2
    listed = [f"<ul>{''.join(part)}</ul>" for part in (filler[:half], filler[half:]) if part]
    content = "\n".join([*listed[:1], *paragraphs, *listed[1:]])

    parts = [
        f'<!DOCTYPE html>\n<html lang="{spec.get("lang", "en")}">\n<head>\n',
        "\n".join(filter(None, head)),
        "\n</head>\n<body>\n",
    ]
    if not bare and spec.get("nav", True):
        navigation = "".join(f'<li><a href="{href}">{text}</a></li>' for href, text in NAVIGATION)
        extra = " ".join(by_place["header"])
        parts.append(f"<header><p>{escape(host.site)}</p><nav><ul>{navigation}</ul></nav>{extra}</header>\n")
    parts.append(f"<main><article>\n<h1>{escape(title)}</h1>\n{content}\n</article></main>\n")
    if not bare:
        more = "".join(f'<li><a href="http://{host.name}/more/{index}">Part {index}</a></li>' for index in range(1, 9))
        parts.append(f"<aside><h2>Read on</h2><ul>{more}</ul>{' '.join(by_place['sidebar'])}</aside>\n")
        parts.append(f"<footer><p>© {escape(host.site)}. {' '.join(by_place['footer'])}</p></footer>\n")
    parts.append("</body>\n</html>\n")
    return "".join(parts)


@lru_cache(maxsize=4)
def _huge_body(host: Host, page: Page) -> bytes:
    """A page of `HUGE_BYTES` with the links of its base at the start or at the very end."""
    spec = page.base
    links = [link_html(link) for link in spec.get("links", ())]
    whole = render(host, page, spec | {"links": []}).encode()
    head, _, tail = whole.partition(b"</article>")
    line = f"<p>{' '.join(_prose(spec.get('topic', 'news'), page.url, 8))}</p>\n".encode()
    said = f"<p>{' '.join(links)}</p>\n".encode()
    filling = line * (HUGE_BYTES // len(line) + 1)
    return head + (said + filling if spec["link_at"] == "start" else filling + said) + b"</article>" + tail


def _challenge(vendor: str) -> tuple[Headers, str]:
    """A bot manager's interstitial with the markers that its vendor documents."""
    return {"cloudflare": (CLOUDFLARE_HEADERS, CLOUDFLARE), "datadome": (DATADOME_HEADERS, DATADOME)}[vendor]


DATADOME_HEADERS: Headers = (("Server", "DataDome"), ("X-DataDome", "protected"), ("X-DD-B", "1"))
DATADOME = """<!DOCTYPE html><html lang="en"><head><title>dashboards-daily.test</title>
<style>#cmsg{animation: A 1.5s;}</style></head>
<body style="margin:0"><p id="cmsg">Please enable JS and disable any ad blocker</p>
<script data-cfasync="false">var dd={'rt':'c','cid':'AHrlqAAAAAMA','hsh':'0123456789ABCDEF','t':'bv','s':1234,
'host':'geo.captcha-delivery.com'}</script>
<script data-cfasync="false" src="https://ct.captcha-delivery.com/c.js"></script></body></html>
"""

CLOUDFLARE_HEADERS: Headers = (("Server", "cloudflare"), ("CF-Mitigated", "challenge"), ("CF-RAY", "8a1b2c3d4e5f-FRA"))
CLOUDFLARE = """<!DOCTYPE html><html lang="en-US"><head><title>Just a moment...</title>
<meta http-equiv="Content-Type" content="text/html; charset=UTF-8"><meta name="robots" content="noindex,nofollow">
<meta http-equiv="refresh" content="390"></head><body class="no-js"><div class="main-wrapper" role="main">
<div class="main-content"><noscript><div id="challenge-error-title"><div class="h2">
<span id="challenge-error-text">Enable JavaScript and cookies to continue</span></div></div></noscript></div></div>
<script>(function(){window._cf_chl_opt={cvId: '3',cZone: "shieldwall.test",cType: 'managed',cRay: '8a1b2c3d4e5f'};
var a = document.createElement('script');
a.src = '/cdn-cgi/challenge-platform/h/b/orchestrate/chl_page/v1?ray=8a1b2c3d4e5f';
document.getElementsByTagName('head')[0].appendChild(a);}());</script></body></html>
"""

CONSENT = """<!DOCTYPE html><html lang="de"><head><meta charset="utf-8">
<title>Zustimmung erforderlich - Datenschutz heute</title>
<meta name="robots" content="noindex">
<script src="https://cdn.privacy-mgmt.com/unified/wrapperMessagingWithoutDetection.js" async></script>
<script>window._sp_ = {config: {accountId: 1234, baseEndpoint: "https://cdn.privacy-mgmt.com"}};
window._sp_queue = [];</script></head>
<body><div id="sp_message_container_1"><form action="/consent" method="post"><h1>Mit Werbung weiterlesen</h1>
<p>Besuchen Sie die Seite wie gewohnt mit Werbung und Tracking. Dazu brauchen wir Ihre Zustimmung.</p>
<button name="consent" value="all">Akzeptieren und weiter</button> <a href="/abo">Abo abschließen</a>
<a href="/datenschutz">Datenschutz</a> <a href="/impressum">Impressum</a></form></div></body></html>
"""

SHELL = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<link rel="stylesheet" href="/static/css/main.3f2a.css"></head><body>
<noscript>You need to enable JavaScript to run this app.</noscript><div id="root"></div>
<script src="/static/js/runtime.1a2b.js"></script><script src="/static/js/vendors.77aa.js"></script>
<script src="/static/js/main.9c8d.js"></script></body></html>
"""

MAINTENANCE = """<!DOCTYPE html><html lang="en-US"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta name="robots" content="max-image-preview:large, noindex, follow"><title>Maintenance</title></head>
<body id="error-page"><div class="wp-die-message">Briefly unavailable for scheduled maintenance. Check back in a minute.</div>
</body></html>
"""

PDF = (
    b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
    b"2 0 obj<</Type/Pages/Count 0/Kids[]>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n"
)
"""An empty document."""

HTML: Headers = (("Content-Type", "text/html; charset=utf-8"),)
PLAIN: Headers = (("Content-Type", "text/plain; charset=utf-8"),)


def _status_page(status: int, spec: dict[str, Any]) -> Answer:
    retry = (("Retry-After", spec["retry_after"]),) if "retry_after" in spec else ()
    if status in (204, 304):
        return Answer(status, retry, b"", "status", spec)
    body = f"<!DOCTYPE html><title>{status}</title><center><h1>{status}</h1></center><hr><center>nginx</center>\n"
    return Answer(status, HTML + retry, body.encode(), "status", spec)


@lru_cache(maxsize=2048)
def _body(host: Host, page: Page, window: int) -> bytes:
    spec = page.spec(window)
    charset = spec.get("charset", "utf-8")
    text = render(host, page, spec)
    if charset == "utf-16":
        return b"\xff\xfe" + text.encode("utf-16-le")
    return text.encode(charset, errors="xmlcharrefreplace")


def answer(scenario: Scenario, name: str, path: str, window: int) -> Answer:
    """What `http://<name><path>` says in a window. Unknown names answer 421, unknown paths 404."""
    host = scenario.hosts.get(name)
    if host is None:
        return Answer(421, PLAIN, b"no such site\n")
    if path == "/robots.txt":
        rules = host.robots_at(window)
        if "text" in rules:
            return Answer(200, PLAIN, rules["text"].encode())
        return Answer(rules.get("status", 404), PLAIN, b"")
    page = scenario.pages.get((name, path))
    if page is None:
        if path.partition("?")[0] in dict(NAVIGATION) or path.startswith("/more/"):
            page = Page(f"http://{name}{path}", "", (), {"topic": "news"})
            return Answer(200, HTML, render(host, page, page.base).encode())
        if path.startswith("/hop/"):
            left = int(path.rsplit("/", 1)[1])
            return (
                Answer(302, (("Location", f"/hop/{left - 1}"),), b"") if left else Answer(200, HTML, b"<p>the end</p>")
            )
        return _status_page(404, {})
    return _scripted(host, page, window)


def _scripted(host: Host, page: Page, window: int) -> Answer:
    spec = page.spec(window)
    do = spec.get("do", "page")
    extra: Headers = tuple(
        (header, spec[key])
        for key, header in (("x_robots_tag", "X-Robots-Tag"), ("link_header", "Link"))
        if key in spec
    )
    match do:
        case "status":
            return _status_page(spec["status"], spec)
        case "redirect":
            location = (("Location", spec["to"]),) if spec["to"] else ()
            text = f'<p>Moved: <a href="{escape(urljoin(page.url, spec["to"]))}">here</a></p>\n'
            return Answer(spec["status"], HTML + location, text.encode(), do, spec)
        case "redirect_chain":
            return Answer(302, (("Location", f"/hop/{spec['hops'] - 1}"),), b"", do, spec)
        case "challenge":
            headers, text = _challenge(spec.get("vendor", "cloudflare"))
            return Answer(spec["status"], HTML + headers, text.encode(), do, spec)
        case "consent":
            return Answer(200, HTML, CONSENT.encode(), do, spec)
        case "maintenance":
            return Answer(200, HTML, MAINTENANCE.encode(), do, spec)
        case "script_shell":
            return Answer(200, HTML, SHELL.format(title=escape(host.site)).encode(), do, spec)
        case "soft_404":
            changed = {
                "title": "Page not found",
                "links": [],
                "bare": False,
                "content_html": "<p>Sorry, the page you are looking for does not exist.</p>",
            }
            return Answer(200, HTML, render(host, page, spec | changed).encode(), do, spec)
        case "pdf":
            return Answer(200, (("Content-Type", "application/pdf"),), PDF, do, spec)
        case "empty":
            return Answer(200, HTML, b"", do, spec)
        case "huge":
            return Answer(200, HTML + extra, _huge_body(host, page), do, spec)
    charset = spec.get("charset", "utf-8") if spec.get("charset_in") != "meta" else None
    named = {"bom": "utf-8", "late_meta": None}.get(spec.get("charset_in", ""), charset)
    kind = f"text/html; charset={named}" if named else "text/html"
    return Answer(200, (("Content-Type", kind), *extra), _body(host, page, window), do, spec)


def last_change(scenario: Scenario, name: str, path: str, window: int) -> int:
    """The window since when the page says what it says now."""
    now = answer(scenario, name, path, window)
    while window and answer(scenario, name, path, window - 1) == now:
        window -= 1
    return window
