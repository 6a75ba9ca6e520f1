"""Registrable domains by the public suffix list, private section on: a blog on a shared host is a domain of its own.

Here: which suffix a host has. Not here: parsing hosts out of URLs (`transforms.urls`), buckets (`transforms.windows`).
The list ships with the pinned `publicsuffixlist` package; another file replaces it through the environment variable
`BACKLINKS_PUBLIC_SUFFIX_LIST` (read once per process, so that worker processes agree) or `use_suffixes`.
"""

from transforms.registrable.suffixes import (
    LIST_VARIABLE,
    BadSuffixList,
    Registrable,
    SuffixList,
    registrable,
    suffixes,
    use_suffixes,
)

__all__ = ["LIST_VARIABLE", "BadSuffixList", "Registrable", "SuffixList", "registrable", "suffixes", "use_suffixes"]
