"""What exists: one short module per stage of the flow. Here: wiring. Not here: rules, SQL, network code."""
