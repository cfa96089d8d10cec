"""Saved results as one HTML page: for people, and for readers who were not there."""
