"""Challenge and consent pages by their documented markers; ordinary pages behind the same vendors are not."""

from __future__ import annotations

import pytest

from transforms.challenges import Kind, find_challenge

PAGE = (
    b"<!doctype html><html><body><article>" + b"<p>text <a href='/x'>link</a></p>" * 400 + b"%s</article></body></html>"
)

CHALLENGES = [
    (b"<script>window._cf_chl_opt={cType:'managed'}</script>", (), "cloudflare challenge"),
    (b"", (("cf-mitigated", "challenge"),), "cloudflare challenge"),
    (b"", (("x-amzn-waf-action", "captcha"),), "aws waf challenge"),
    (b"<script>window.gokuProps = {}</script>", (), "aws waf challenge"),
    (b"<script>var dd={'host':'geo.captcha-delivery.com'}</script>", (), "datadome challenge"),
    (b'<div id="px-captcha"></div>', (), "human (perimeterx) challenge"),
    (b"Request unsuccessful. Incapsula incident ID: 1-2", (), "imperva block page"),
    (b'<iframe src="/_Incapsula_Resource?SWUDNSAI=31&xinfo=9">', (), "imperva challenge"),
    (b'<script src="/_sec/cp_challenge/sec-4-4.js">', (), "akamai challenge"),
    (b'<script id="anubis_challenge" type="application/json">', (), "anubis challenge"),
    (b"<title>DDoS-Guard</title>", (), "ddos-guard challenge"),
    (b"<script>sucuri_cloudproxy_js=''</script>", (), "sucuri challenge"),
    (b"The requested URL was rejected. Please consult with your administrator.", (), "f5 block page"),
    (b"", (("sg-captcha", "challenge"),), "siteground captcha"),
]


@pytest.mark.parametrize(("body", "headers", "name"), CHALLENGES)
def test_challenges(body: bytes, headers: tuple[tuple[str, str], ...], name: str) -> None:
    found = find_challenge(b"<html><body>" + body, headers)
    assert found is not None
    assert (found.kind, found.name) == (Kind.CHALLENGE, name)


def test_a_marker_deep_in_the_body() -> None:
    deep = b"<html>" + b"<!-- pad -->" * 50_000 + b"<script>window._cf_chl_opt={}</script>"
    found = find_challenge(deep)
    assert found is not None
    assert found.name == "cloudflare challenge"


@pytest.mark.parametrize(
    "extra",
    [
        b"<script src='/cdn-cgi/challenge-platform/scripts/jsd/main.js'></script>",
        b"<script>window.__CF$cv$params={r:'8'}</script>",
        b"<script src='https://static.cloudflareinsights.com/beacon.min.js'></script>",
        b"<script src='https://js.datadome.co/tags.js'></script>",
        b"<script src='/_Incapsula_Resource?SWJIYLWA=719d34d31c8e3a6e6fffd425f7e032f3'></script>",
        b"<script src='https://client.px-cdn.net/PX1/main.min.js'></script>",
        b"<script src='https://abc.token.awswaf.com/abc/challenge.js'></script>",
        b"<p>The challenge: how to solve a captcha. Just a moment...</p>",
        b"<div class='g-recaptcha'></div><script src='https://www.google.com/recaptcha/api.js'></script>",
        b"<div id='sp_message_container_1'></div><script src='https://cdn.privacy-mgmt.com/x.js'></script>",
        b"<form action='https://consent.example/save'>",
    ],
)
def test_ordinary_pages_behind_the_same_vendors(extra: bytes) -> None:
    headers = (("server", "cloudflare"), ("x-datadome", "protected"), ("cf-mitigated", "none"))
    assert find_challenge(PAGE % extra, headers, "https://a.test/x", "https://a.test/x") is None


def test_an_article_that_quotes_a_marker_is_an_article() -> None:
    article = PAGE % (b"<pre>window._cf_chl_opt = {}</pre>" + b"<p>How a challenge works, in many words.</p>" * 100)
    assert find_challenge(article) is None


def test_consent_walls() -> None:
    wall = b"<html><body><div id='x'>Zustimmung</div><script src='https://cdn.privacy-mgmt.com/x.js'></script></body></html>"
    found = find_challenge(wall)
    assert found is not None
    assert found.kind is Kind.CONSENT
    page = b"<html><body>page</body></html>"
    found = find_challenge(page, (), "https://consent.youtube.com/m?continue=x", "https://www.youtube.com/watch?v=1")
    assert found is not None
    assert found.kind is Kind.CONSENT
    assert find_challenge(page, (), "https://consent.youtube.com/m", "https://consent.youtube.com/m") is None
    sorry = find_challenge(
        page, (), "https://www.google.com/sorry/index?continue=x", "https://www.google.com/search?q=a"
    )
    assert sorry is not None
    assert sorry.kind is Kind.CHALLENGE
