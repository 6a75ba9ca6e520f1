"""Import files into the ledger: reading them as streams, the rejects file, the run from first byte to counts.

Here: `reader` (gzip, encoding, bounded lines), `rejects` (the file of rows that were not accepted), `turn` (one import
into a project at a time), `run` (drives them and the ledger). Not here: what a row is worth (`transforms.imports`), SQL
(`warehouse.ledger`).
"""
