"""Challenge and consent pages by their documented markers; ordinary pages with a vendor's beacon are ordinary pages."""

# ruff: noqa: E501 - pages and markers are data, one a line

from __future__ import annotations

import pytest

from transforms.html import parse_page

PROSE = "<p>" + "Ordinary words of an ordinary page. " * 150 + "</p>"

CHALLENGES = [
    ("<title>Just a moment...</title><script>window._cf_chl_opt={cType:'managed'}</script>", "challenge:cloudflare"),
    (
        "<script>"
        + "x" * 200_000
        + "</script><script src='/cdn-cgi/challenge-platform/h/b/orchestrate/chl_page/v1'></script>",
        "challenge:cloudflare",
    ),
    ("<title>Attention Required! | Cloudflare</title>", "challenge:title"),
    (
        "<html><head><title>Access Denied</title></head><body>Reference&#32;&#35;18&#46;2d<p>https&#58;&#47;&#47;errors&#46;edgesuite&#46;net&#47;18</body>",
        "challenge:akamai",
    ),
    ("<html><body>Request unsuccessful. Incapsula incident ID: 1-2</body></html>", "challenge:imperva"),
    (
        "<script data-cfasync=\"false\">var dd={'rt':'c','cid':'x','hsh':'y'}</script><script src='https://ct.captcha-delivery.com/c.js'></script>",
        "challenge:datadome",
    ),
    ("<div id='px-captcha'></div>", "challenge:human"),
    ("<script>window.gokuProps = {}</script>", "challenge:aws_waf"),
    ("<script>sucuri_cloudproxy_js='';</script>", "challenge:sucuri"),
    ("<title>Vercel Security Checkpoint</title>", "challenge:vercel"),
    ("<script id='anubis_challenge' type='application/json'>{}</script>", "challenge:anubis"),
    ("<meta http-equiv=refresh content='0;/.well-known/sgcaptcha/?r=%2F'>", "challenge:siteground"),
    ("<form action='https://consent.google.com/save' method=POST></form>", "consent:google_consent"),
]


@pytest.mark.parametrize(("html", "marker"), CHALLENGES)
def test_a_challenge_is_recognised_however_deep(html: str, marker: str) -> None:
    page = parse_page(html.encode(), document_url="https://e.example/").page
    assert page["challenge"] == marker
    assert page["reason"] == ("consent_wall" if marker.startswith("consent") else "challenge")


ORDINARY = [
    "<script>(function(){window['__CF$cv$params']={r:'1'};a.src='/cdn-cgi/challenge-platform/scripts/jsd/main.js'})()</script>",
    "<script src='https://js.datadome.co/tags.js'></script>",
    "<script src='/_Incapsula_Resource?SWJIYLWA=719d34d31c8e3a6e6fffd425f7e032f3'></script>",
    "<script src='//client.px-cloud.net/PXabc/main.min.js'></script>",
    "<noscript><img src='/akam/13/pixel_1'></noscript>",
    "<p>How to solve hCaptcha and reCAPTCHA.</p>",
]


@pytest.mark.parametrize("html", ORDINARY)
def test_a_beacon_makes_no_challenge(html: str) -> None:
    page = parse_page(
        f"<!doctype html><title>Shop</title><h1>Hi</h1><p>Short text.</p>{html}".encode(), document_url="https://e/"
    ).page
    assert page["challenge"] is None
    assert page["reason"] == "ok"


def test_an_article_about_challenges_is_no_challenge() -> None:
    page = parse_page(
        f"<title>On bots</title>{PROSE}<pre>window._cf_chl_opt</pre>".encode(), document_url="https://e/"
    ).page
    assert page["challenge"] is None
