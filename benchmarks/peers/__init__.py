"""Other ways to serve the same bundles, each written as its own documentation shows."""
