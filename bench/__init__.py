"""Measures the product as its users meet it: a real server, a scripted provider, real sockets (docs/benchmarks.md)."""
