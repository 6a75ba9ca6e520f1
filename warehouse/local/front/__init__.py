"""ClickHouse's HTTP interface on loopback, answered by the chDB engine in this process.

Here: what clickhouse-connect, dbt-clickhouse, BI tools and curl need of it on one machine. `lexer` reads just enough
SQL, `engine` owns the data directory and its handles, `codecs` are the content encodings, `app` is the HTTP side,
`forms` are multipart bodies, `__main__` starts it. Not here: a ClickHouse server. There are no roles, no replication
and no native port, and `compress=1` blocks are refused by name. The same settings point at a real server
(`compose.yaml`).
"""
