"""A server under a mixed load for a long time: whether it grows, leaks or fails."""
