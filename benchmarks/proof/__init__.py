"""The service's promises of speed, each measured on real servers and held against its bound."""
