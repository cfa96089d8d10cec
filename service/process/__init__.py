"""Processes of one server: their beginning, their end, and what they tell each other."""
