"""Pages that stand where the page will be, or was: maintenance pages, servers' default pages, parked domains, shops that are
not open. Here: their documented markers, and where they count. Not here: challenges and consent walls
(`transforms.challenges`), what follows from them (evidence `none`, with a reason).

They answer 200 more often than they should, and a page that is replaced by one of them has not dropped its links. A marker
counts only on a page with little text and few links of its own: people write about nginx's welcome page too. Titles are
compared whole; phrases are the vendors' own sentences, not words that anybody might use.
"""

from __future__ import annotations

import re

from transforms.reasons import Reason

MAX_TEXT_CHARS = 4_000
"""Apache's default page on Debian, the longest of them, has about 3,000."""
MAX_PHRASE_TEXT_CHARS = 1_500
MAX_LINKS = 30

MAINTENANCE: dict[str, tuple[bytes, ...]] = {
    # WordPress core, wp-includes/load.php, wp_maintenance()
    "wordpress": (b"Briefly unavailable for scheduled maintenance. Check back in a minute.",),
    # Drupal core, system.maintenance.yml
    "drupal": (b"is currently under maintenance. We should be back shortly. Thank you for your patience.",),
    # Joomla, JOFFLINE_MESSAGE
    "joomla": (b"This site is down for maintenance.<br>Please check back again soon.",
               b"This site is down for maintenance.<br />Please check back again soon.",
               b"This site is down for maintenance.<br/>Please check back again soon."),
    # Apache httpd's text for 503, which proxies pass on with other statuses
    "apache_503": (b"The server is temporarily unable to service your request due to maintenance downtime or capacity problems.",),
    # MediaWiki, wiki in read-only or without its database
    "mediawiki": (b"Sorry! This site is experiencing technical difficulties.",),
    # Discourse, templates/offline-page.template.yml of its container
    "discourse": (b"Site is currently undergoing planned maintenance", b"Site is currently down for planned maintenance"),
}  # fmt: skip

PLACEHOLDER: dict[str, tuple[bytes, ...]] = {
    # Shopify, Liquid's form 'storefront_password': the whole shop is behind it
    "shopify_password": (b'name="form_type" value="storefront_password"',),
    "cpanel_default": (b"/cgi-sys/defaultwebpage.cgi", b"If you are the owner of this website, please contact your hosting provider:"),
    "cpanel_suspended": (b"/cgi-sys/suspendedpage.cgi", b"This Account has been suspended."),
    "mediatemple_default": (b"This is an automatically generated default server page",),
    "ispconfig_default": (b"This is the default index page of your website.",),
    "wix_unconnected": (b"Looks like this domain isn't connected to a website yet",),
    # Parking: the service's own host or sentence
    "parked": (b"sedoparking.com/", b"parkingcrew.net/", b"bodis.com/", b"parklogic.com/", b"d38psrni17bvxu.cloudfront.net",
               b"parkingpage.namecheap.com", b"hugedomains.com/domain_profile", b"afternic.com/forsale/", b"godaddy.com/forsale/",
               b"This domain is parked free, courtesy of", b"This Web page is parked", b"Buy this domain", b"buy this domain",
               b"domain is for sale", b"domain may be for sale", b"domain name is for sale", b"domain is parked",
               b"domain has expired"),
}  # fmt: skip

_TITLES: dict[str, tuple[Reason, str]] = {
    title.lower(): (reason, name)
    for reason, name, titles in (
        (Reason.MAINTENANCE, "title", (
            "Maintenance", "Maintenance mode", "Site maintenance", "Under maintenance", "Site under maintenance",
            "Down for maintenance", "Scheduled maintenance", "Be right back.", "We'll be right back", "We’ll be right back",
            "Service temporarily unavailable", "503 Service Temporarily Unavailable", "503 Service Unavailable",
            "Wartungsmodus", "Wartungsarbeiten", "Site en maintenance", "Maintenance en cours", "En mantenimiento",
            "Sitio en mantenimiento", "In manutenzione", "Sito in manutenzione",
        )),
        (Reason.PLACEHOLDER, "apache_default", (
            "Apache2 Debian Default Page: It works", "Apache2 Ubuntu Default Page: It works", "Apache2 Default Page: It works",
            "Test Page for the Apache HTTP Server", "Test Page for the HTTP Server on Red Hat Enterprise Linux",
            "HTTP Server Test Page powered by CentOS", "HTTP Server Test Page powered by: Rocky Linux",
            "HTTP Server Test Page", "Apache HTTP Server Test Page powered by CentOS",
        )),
        (Reason.PLACEHOLDER, "nginx_default", (
            "Welcome to nginx!", "Welcome to nginx on Debian!", "Welcome to OpenResty!", "Welcome to tengine!",
            "Test Page for the Nginx HTTP Server on Fedora", "Test Page for the Nginx HTTP Server on EPEL",
        )),
        (Reason.PLACEHOLDER, "iis_default", ("IIS Windows Server", "IIS7", "IIS Windows", "Microsoft Internet Information Services 8")),
        (Reason.PLACEHOLDER, "caddy_default", ("Caddy works!",)),
        (Reason.PLACEHOLDER, "plesk_default", (
            "Web Server's Default Page", "Domain Default page", "Default PLESK Page", "Default Parallels Plesk Page",
        )),
        (Reason.PLACEHOLDER, "cpanel_default", ("Default Web Site Page",)),
        (Reason.PLACEHOLDER, "cpanel_suspended", ("Account Suspended", "This Account has been suspended.")),
    )
    for title in titles
}  # fmt: skip

_NEEDLES: tuple[tuple[Reason, str, bytes], ...] = tuple(
    (reason, name, needle)
    for reason, table in ((Reason.MAINTENANCE, MAINTENANCE), (Reason.PLACEHOLDER, PLACEHOLDER))
    for name, needles in table.items()
    for needle in needles
)
_IT_WORKS = re.compile(rb"\s*<html>\s*<body>\s*<h1>\s*It works!\s*</h1>.{0,400}\Z", re.IGNORECASE | re.DOTALL)
"""httpd's own index.html, with Debian's old two sentences below."""


def find_placeholder(markup: bytes, *, title: str | None, text_chars: int, links: int) -> tuple[Reason, str] | None:
    """Reason (maintenance or placeholder) and marker (`maintenance:wordpress`) of a page that stands in for another one.

    `markup`: the page as UTF-8; `title`: whitespace folded; `text_chars`: visible text; `links`: clickable ones.
    """
    if text_chars > MAX_TEXT_CHARS or links > MAX_LINKS:
        return None
    found = None
    if text_chars <= MAX_PHRASE_TEXT_CHARS:
        found = next(((reason, name) for reason, name, needle in _NEEDLES if needle in markup), None)
        if found is None and _IT_WORKS.match(markup):
            found = (Reason.PLACEHOLDER, "apache_default")
    if found is None:
        found = _TITLES.get((title or "").strip().lower())
        if found is not None and found[0] is Reason.MAINTENANCE and text_chars > MAX_PHRASE_TEXT_CHARS:
            return None  # "Maintenance" may be what an ordinary page is about
    return None if found is None else (found[0], f"{found[0].value}:{found[1]}")
