"""The stores: the MySQL ledger, ClickHouse, the object store, and the local stack that runs them on one machine.

Here: everything that reads or writes a store of ours. Not here: rules (see `transforms`), other people's servers
(see `crawl`), Dagster.
"""
