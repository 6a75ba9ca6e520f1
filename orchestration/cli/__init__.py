"""The `backlinks` command."""
