"""What may be counted, logged and traced of a request."""
