"""Foreign wire formats, one file a protocol: requests become native items, native answers become theirs."""
