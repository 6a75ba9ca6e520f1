-- Nothing asks by project and due time: a claim reads shard by shard (backlinks_source_due_idx). Every check wrote it twice.
ALTER TABLE backlinks DROP KEY backlinks_due_idx;
