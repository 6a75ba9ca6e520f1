"""Schema of stage `redirect_checks`: where a page's own redirectors lead."""

from __future__ import annotations

import pyarrow as pa

from transforms.schemas.dataset import BOOL, STR, TIME, U16, U32, U64, Dataset, column
from transforms.schemas.fetches import HOP

LINK_REDIRECTS = Dataset(
    "link_redirects",
    "One row per link of a page to a redirector of its own site that may lead to a monitored target, and what a request to it "
    "showed. Only a row with a `final_identity` is a proof.",
    pa.schema([
        column("source_url_id", U64, "urls.id of the source page"),
        column("source_url", STR, "identity of the source page"),
        column("link_identity", STR, "identity of the link, a redirector of the source's own site"),
        column("position", U32, "the first such link on the page, as in link_manifests"),
        column("why", STR, "why it was looked at: proven (in an earlier window) | named (it holds the target's URL or host) | "
                           "shape (its path is a redirector's)"),
        column("edges", pa.list_(U64), "backlinks.id of the source's edges that no direct link stands for"),
        column("waiting_edges", pa.list_(U64), "those of them that must not be called missing before this redirector was checked: "
                                               "it names their target, or they were last found through a redirector"),
        column("outcome", STR, "transforms.reasons.Outcome of the request"),
        column("reason", STR, "transforms.reasons.Reason of the request"),
        column("detail", STR, "one sentence for a person", null=True),
        column("http_status", U16, "status of the last answer", null=True),
        column("final_identity", STR, "identity of the target that the redirects reached; null: not proven", null=True),
        column("is_conclusive", BOOL, "it was asked and answered: it leads to the target (proven), or somewhere else"),
        column("hops", pa.list_(HOP), "every request with its gate decisions, in order; the target itself is not asked"),
        column("checked_at", TIME, "when it was asked (the flow's clock)"),
        column("is_reused", BOOL, "the answer of an earlier window, which is still believed"),
    ]),
    ("source_url_id", "position"),
)  # fmt: skip
