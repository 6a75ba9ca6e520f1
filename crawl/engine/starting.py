"""The last moment before a request: is its time still its time? Here: claiming the start in the frontier, hearing of other
shards' slots first, slots at other shards' origins that have passed. Not here: robots and suppression, which are
rechecked after this (`page_visits`).
"""

from __future__ import annotations

import trio

from crawl.engine.context import Context, Work, WorkGrant
from crawl.engine.origins import Origins

MAX_MISSED = 3
"""Slots that a visit may miss at another shard's origin; then the window has no time for it."""


class NotNow(Exception):
    """Right before the request a gate changed its mind: the visit goes round again."""


async def start(context: Context, origins: Origins, grant: WorkGrant, work: Work) -> None:
    """Wait for the start of the granted request, and claim it. Raises `NotNow` when its slot has passed, or when others'
    slots moved it so far that more may have been reserved by then."""
    notice = context.settings.foreign_notice_s
    await origins.listen(notice)
    now = trio.current_time()
    if now > work.slot_end:
        work.slots_missed += 1
        raise NotNow
    at = context.frontier.start(grant, now)
    if at > work.slot_end or (origins.is_shared and at - now > notice):
        work.slots_missed += at > work.slot_end
        raise NotNow
    if at > now:
        await trio.sleep_until(at)
