"""The parts of `tests.bench.crawl_soak`. Here: the scene (`scene`), the web that fails (`web`), the crawling process
(`worker`), the private MySQL server that is restarted and killed (`database`), the judge (`verdict`). Not here: the
conductor, which is the command itself.
"""
