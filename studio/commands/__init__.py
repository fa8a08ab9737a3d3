"""What each client frame does: call the use case, reply. No command waits for a run, a confirmation or a broker.

A command that must wait for an end takes effect in the order sent, and replies from a task of its own.
"""
