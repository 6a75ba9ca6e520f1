"""Which rules changed a URL's spelling. Here: naming them by comparing what went in with what came out.

Not here: applying them (ada-url and `transforms.urls.identity` do). Each name is one sentence of a standard:

| rule | standard |
|---|---|
| trimmed | WHATWG URL §4.4: C0 controls and spaces at the ends are removed |
| tab_newline_removed | §4.4: tabs and newlines anywhere are removed |
| resolved_against_base | §4.4: no scheme state, relative state |
| scheme_lowercased | §4.4: scheme state |
| slashes_repaired | §4.4: special authority (ignore) slashes states |
| backslash_to_slash | §4.4: in special URLs a backslash is a slash |
| host_percent_decoded, host_lowercased, idna | §3.5: host parsing, domain to ASCII |
| ipv4, ipv6 | §3.5: number parsing, address compression |
| default_port_removed, port_canonical | §4.4: port state |
| host_dot_removed | RFC 1034 §3.1: the root's dot |
| dot_segments_removed | §4.4: path state; RFC 3986 §6.2.2.3 |
| empty_path | RFC 3986 §6.2.3: an empty path is `/` |
| percent_encoded | §4.4: what may not stand in a component is UTF-8 percent-encoded |
| unreserved_decoded | RFC 3986 §6.2.2.2 |
| hex_uppercased | RFC 3986 §6.2.2.1 |
| fragment_removed | RFC 3986 §3.5: a fragment never reaches the server |
"""

from __future__ import annotations

import re

_ENDS = "".join(map(chr, range(0x21)))
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):")
_SPECIAL_PORTS = {"http": "80", "https": "443", "ws": "80", "wss": "443", "ftp": "21"}
_DOT_SEGMENT = re.compile(r"(?:\.|%2e){1,2}", re.IGNORECASE)
_LOWER_HEX = re.compile("%(?:[a-f][0-9A-Fa-f]|[0-9A-F][a-f])")
_ENCODED_UNRESERVED = re.compile("%(?:2[dDeE]|3[0-9]|4[1-9A-Fa-f]|5[0-9AaFf]|6[1-9A-Fa-f]|7[0-9AaEe])")


def trace(raw: str, base: str | None, resolved: str, identity: str | None) -> tuple[str, ...]:
    """Names of the rules that fired between `raw` and `identity` (or `resolved`, when there is no identity)."""
    fired: list[str] = []
    text = raw.strip(_ENDS)
    if text != raw:
        fired.append("trimmed")
    bare = text.translate({9: None, 10: None, 13: None})
    if bare != text:
        fired.append("tab_newline_removed")
    scheme = resolved.partition(":")[0]
    written = _SCHEME.match(bare)
    special = scheme in _SPECIAL_PORTS
    if not special:
        if written is None:
            fired.append("resolved_against_base")
        elif written.group(1) != scheme:
            fired.append("scheme_lowercased")
        return tuple(fired)
    rest, authority = bare, None
    if written is not None and not _is_relative(bare, written, base):
        if written.group(1) != scheme:
            fired.append("scheme_lowercased")
        rest = bare[written.end() :]
        body = rest.lstrip("/\\")
        if rest[: len(rest) - len(body)] != "//":
            fired.append("slashes_repaired")
        authority, rest = _split_authority(body)
    else:
        fired.append("resolved_against_base")
        if written is not None:
            rest = bare[written.end() :]
        if rest[:2].replace("\\", "/") == "//":
            authority, rest = _split_authority(rest.lstrip("/\\"))
    path, query, fragment = _split_rest(rest)
    if "\\" in path or (authority is None and "\\" in rest[:2]):
        fired.append("backslash_to_slash")
    if authority is not None:
        _trace_authority(authority, scheme, resolved, fired)
    if any(_DOT_SEGMENT.fullmatch(segment) for segment in path.replace("\\", "/").split("/")):
        fired.append("dot_segments_removed")
    if authority is not None and not path:
        fired.append("empty_path")
    encoded = resolved.partition("#")[0].count("%")
    before = _without_fragment(base).count("%") if base is not None and authority is None else 0
    if encoded > bare.partition("#")[0].count("%") and encoded > before and _needs_encoding(path + (query or "")):
        fired.append("percent_encoded")
    if identity is not None:
        kept = _without_fragment(resolved)
        if identity.count("%") < kept.count("%"):
            fired.append("unreserved_decoded")
        if _LOWER_HEX.search(_ENCODED_UNRESERVED.sub("", kept)):
            fired.append("hex_uppercased")
        if fragment is not None or "#" in resolved:
            fired.append("fragment_removed")
    return tuple(fired)


def _is_relative(text: str, written: re.Match[str], base: str | None) -> bool:
    """`https:page` against an https base is relative (special relative or authority state)."""
    scheme = written.group(1).lower()
    return (
        base is not None
        and scheme in _SPECIAL_PORTS
        and base.strip(_ENDS).lower().startswith(scheme + ":")
        and text[written.end() : written.end() + 2] != "//"
    )


def _split_authority(body: str) -> tuple[str, str]:
    end = next((at for at, char in enumerate(body) if char in "/\\?#"), len(body))
    return body[:end], body[end:]


def _split_rest(rest: str) -> tuple[str, str | None, str | None]:
    before, hash_mark, fragment = rest.partition("#")
    path, question, query = before.partition("?")
    return path, query if question else None, fragment if hash_mark else None


def _without_fragment(url: str) -> str:
    return url.partition("#")[0]


def _needs_encoding(text: str) -> bool:
    return any(char in " \"<>`{}'^" or not "!" <= char <= "~" for char in text)


def _trace_authority(authority: str, scheme: str, resolved: str, fired: list[str]) -> None:
    written = authority.rpartition("@")[2]
    if written.startswith("["):
        host, _, port = written.partition("]")
        host, port = host + "]", port.removeprefix(":")
        has_port = written.endswith(":") or bool(port)
    else:
        host, colon, port = written.partition(":")
        has_port = bool(colon)
    final = resolved[len(scheme) + 3 :]
    final = final[: next((at for at, char in enumerate(final) if char in "/?#"), len(final))].rpartition("@")[2]
    final_host = final[: final.index("]") + 1] if final.startswith("[") else final.partition(":")[0]
    if "%" in host and not host.startswith("["):
        fired.append("host_percent_decoded")
    if any("A" <= char <= "Z" for char in host):
        fired.append("host_lowercased")
    if host.startswith("["):
        if host.lower() != final_host:
            fired.append("ipv6")
    elif final_host.replace(".", "").isdigit():
        if host != final_host:
            fired.append("ipv4")
    elif not host.isascii() or ("%" in host and "xn--" in final_host):
        fired.append("idna")
    if final_host.endswith("."):
        fired.append("host_dot_removed")
    if has_port:
        if port.lstrip("0") == _SPECIAL_PORTS[scheme] or not port:
            fired.append("default_port_removed")
        elif port != (port.lstrip("0") or "0"):
            fired.append("port_canonical")
