"""The parts of `tests.bench.crawl_bench`: pages (`pages`), the web servers (`server`), who is measured (`contenders`),
what is measured (`cases`). Not here: the command.
"""
