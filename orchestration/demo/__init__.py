"""The demo: a scripted web on loopback, what must be reported about it, and the play that drives the flow over it.

Here: `scenario` (the script and its truth), `web` (the server), `corpus` (a second web of real pages), `play` (the
run). Not here: anything that the flow needs outside a demo or a test.
"""
