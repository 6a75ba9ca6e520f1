"""Encodings as browsers see them. Here: sniffing, decoding, encoding of queries. Not here: HTML."""

from transforms.html.charset.decoders import decode, query_encoder
from transforms.html.charset.labels import encoding_named
from transforms.html.charset.sniff import Charset, essence, sniff, sniff_xml, strip_bom

__all__ = ["Charset", "decode", "encoding_named", "essence", "query_encoder", "sniff", "sniff_xml", "strip_bom"]
