"""Which links stand for which edges. Set-based, in polars; no I/O.

Here: manifests x expected edges x target rules -> observations, occurrences and newly found edges. Not here: what a
check proves (`transforms.evidence`), what a person writes as a target (`transforms.targets`), states (dbt).

- `tolerance`: the parts of a URL that a tolerant comparison looks at, and what was tolerated.
- `rules`: which target rules of a project accept which URLs.
- `shared`: what many edges have in common, worked out once: targets, their rules, the links that could matter.
- `edges`: links x expected edges -> pairs; the link that stands for an edge; what is new.
- `observations`: pairs and evidence -> rows of `LINK_OBSERVATIONS`; `digests`: their keys and hashes.
- `window`: the whole, in slices of bounded size.
"""

from transforms.matching.window import (
    LINK_COLUMNS,
    MatchResult,
    match_window,
    observe_discovered,
    source_ranges,
)

__all__ = ["LINK_COLUMNS", "MatchResult", "match_window", "observe_discovered", "source_ranges"]
