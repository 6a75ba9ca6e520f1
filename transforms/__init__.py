"""The pure core: URL identity, HTML to links, dataset schemas, matching, evidence, recheck policy, alert rules.

Here: functions from values to values. Not here: files, sockets, clocks, databases, Dagster.
"""
