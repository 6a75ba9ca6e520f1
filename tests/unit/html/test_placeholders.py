"""Pages that stand in for the page: as their makers ship them (shortened), and ordinary pages that speak of them."""

# ruff: noqa: E501 - pages are data, one a line

from __future__ import annotations

import pytest

from transforms.html import parse_page

LONG = "<p>" + "How to set up a server, step by step, with all that may go wrong on the way. " * 80 + "</p>"


def page(title: str, body: str) -> bytes:
    return f"<!DOCTYPE html><html><head><title>{title}</title></head><body>{body}</body></html>".encode()


STAND_INS = [
    ("maintenance:wordpress", page("Maintenance", '<div class="wp-die-message">Briefly unavailable for scheduled maintenance. Check back in a minute.</div>')),
    ("maintenance:drupal", page("Site under maintenance | Garden", "<main>Garden is currently under maintenance. We should be back shortly. Thank you for your patience.</main>")),
    ("maintenance:joomla", page("Garden", "<p>This site is down for maintenance.<br />Please check back again soon.</p><form><input></form>")),
    ("maintenance:apache_503", page("503", "<h1>Service Unavailable</h1><p>The server is temporarily unable to service your request due to maintenance downtime or capacity problems. Please try again later.</p>")),
    ("maintenance:mediawiki", page("Garden wiki", "<h1>Sorry! This site is experiencing technical difficulties.</h1><p>Try waiting a few minutes and reloading.</p>")),
    ("maintenance:discourse", page("Forum", "<h1>Please hold on!</h1><p>Site is currently undergoing planned maintenance.</p>")),
    ("maintenance:title", page("  Be right back. ", "<h1>Tea break</h1>")),
    ("maintenance:title", page("Wartungsarbeiten", "<p>In K\u00fcrze wieder da.</p>")),
    ("placeholder:shopify_password", page("Garden \u2013 Opening Soon", '<form method="post" action="/password" class="storefront-password-form"><input type="hidden" name="form_type" value="storefront_password" /><input type="password"></form>')),
    ("placeholder:apache_default", page("Apache2 Debian Default Page: It works", "<p>This is the default welcome page used to test the correct operation of the Apache2 server.</p>" * 20)),
    ("placeholder:apache_default", b"<html><body><h1>It works!</h1></body></html>\n"),
    ("placeholder:nginx_default", page("Welcome to nginx!", '<h1>Welcome to nginx!</h1><p>If you see this page, the nginx web server is successfully installed.</p><a href="http://nginx.org/">nginx.org</a>')),
    ("placeholder:iis_default", page("IIS Windows Server", '<a href="http://go.microsoft.com/fwlink/?linkid=66138"><img src="iisstart.png" alt="IIS"></a>')),
    ("placeholder:cpanel_default", b'<html><head><META HTTP-EQUIV="refresh" CONTENT="0;URL=/cgi-sys/defaultwebpage.cgi"></head><body>.</body></html>'),
    ("placeholder:cpanel_suspended", page("Account Suspended", "<h1>Account Suspended</h1><p>Contact your hosting provider for more information.</p>")),
    ("placeholder:plesk_default", page("Web Server's Default Page", '<h1>What is Plesk</h1><a href="https://www.plesk.com">Plesk</a>')),
    ("placeholder:parked", page("garden.example", '<h1>garden.example</h1><p>This domain may be for sale.</p><script src="https://img.sedoparking.com/x.js"></script>')),
    ("placeholder:parked", page("garden.example is for sale", '<a href="https://www.hugedomains.com/domain_profile.cfm?d=garden">more</a>')),
]  # fmt: skip

ORDINARY = [
    page("Welcome to nginx! What now?", "<p>You see this page. Here is what comes next.</p>"),
    page("Welcome to nginx!", LONG),
    page("Maintenance", LONG[:3000]),
    page("Boat maintenance", "<p>Antifouling, anodes and the rest.</p>"),
    page(
        "Notes", "<p>The page said: Briefly unavailable for scheduled maintenance. Check back in a minute.</p>" + LONG
    ),
    page("Directory", "<p>Buy this domain</p>" + "".join(f'<a href="/{n}">{n}</a> ' for n in range(31))),
    page("Works", "<h1>It works!</h1><p>Finally.</p>"),
]


@pytest.mark.parametrize(("marker", "body"), STAND_INS, ids=lambda value: value if isinstance(value, str) else "")
def test_a_page_that_stands_in_for_another_is_known(marker: str, body: bytes) -> None:
    parsed = parse_page(body, document_url="http://garden.example/links").page
    assert (parsed["challenge"], parsed["reason"]) == (marker, marker.partition(":")[0])


@pytest.mark.parametrize("body", ORDINARY)
def test_an_ordinary_page_that_speaks_of_them_is_a_page(body: bytes) -> None:
    parsed = parse_page(body, document_url="http://garden.example/links").page
    assert (parsed["challenge"], parsed["reason"]) == (None, "ok")
