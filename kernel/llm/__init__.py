"""Talking to models: the protocol, the connections that a stop closes, retries, and the models that come along."""
