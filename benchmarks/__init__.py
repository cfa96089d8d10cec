"""Measurements of the running service: its speed, its limits and its fidelity, beside what else one could have used."""
