"""Stage 1, `due_sources`: claim what is due in the ledger; write the due batch and the expected edges as Parquet."""

import dagster as dg

from assets import tables
from assets.partition import WindowShard, shards_of, window_shards
from assets.platform import Platform
from transforms.schemas import DUE_SOURCES, EXPECTED_EDGES, TARGET_RULES
from warehouse.ledger import claims, leases

KEY = dg.AssetKey(["backlinks", "due_sources"])


def claim(platform: Platform, at: WindowShard) -> dict[str, int]:
    """Claim a window x shard. Claimed before stays claimed, newly due is added, so a rerun only ever adds. Returns counts.

    Pages are held by the shard's lease and its fence, not row by row; rows of the ledger's queues that somebody leased and
    never finished go back here, in bounded batches, or fail for good after the attempt cap.
    """
    expired = leases.recover_expired(platform.ledger, now=platform.clock.now()).values()
    # One at a time: of two runs at once, the one that claimed less must not write its part last.
    with platform.lease(f"claim:{at.shard}", wait_s=900.0):
        claimed = claims.claim_due(
            platform.ledger,
            window=at.window,
            shard=at.shard,
            shards=shards_of(platform, at.window),
            now=platform.clock.now(),
            owner=platform.owner,
        )
        for dataset, table in (
            (EXPECTED_EDGES, claimed.expected),
            (TARGET_RULES, claimed.rules),
            (DUE_SOURCES, claimed.due),  # last: its presence says that the other two are there
        ):
            platform.datasets.write_part(dataset, at.window, at.shard, table, "all")
    recovered = {"recovered": sum(back for back, _ in expired), "given_up": sum(failed for _, failed in expired)}
    return {**claimed.counts, **recovered, "sources": claimed.due.num_rows, "edges": claimed.expected.num_rows}


def build(partitions: dg.PartitionsDefinition) -> dg.AssetsDefinition:
    @dg.asset(key=KEY, partitions_def=partitions, group_name="claim", kinds={"mysql", "parquet"})
    def due_sources(context: dg.AssetExecutionContext, platform: dg.ResourceParam[Platform]) -> dg.MaterializeResult:
        """Source pages that fall due in the window, coalesced over all projects: one row per page, plus its edges."""
        counts = [claim(platform, at) for at in window_shards(context, platform)]
        return dg.MaterializeResult(metadata=tables.total(counts))

    return due_sources
