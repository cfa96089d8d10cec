"""How a graph runs on rows, and on which device."""
