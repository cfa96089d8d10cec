"""What waits, whose turn it is, and what is run together."""
