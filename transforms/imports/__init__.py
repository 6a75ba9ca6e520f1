"""Import files of backlinks: from the head of a file to judged rows, all of it pure.

`sniff` tells what the bytes are (gzip, encoding), `formats` knows the headings of each provider's export,
`layout` finds delimiter, heading line and columns, `records` turns lines into cells and survives broken quoting,
`rows` judges each row: accepted, duplicate or invalid, with a reason. Not here: reading files, the rejects file and the
ledger (`warehouse.imports`); what counts for a target (`transforms.targets`).
"""
