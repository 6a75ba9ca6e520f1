"""When: settings, definitions, partitions, resources, schedules, sensors, checks, and the `backlinks` command."""
