"""What is said and remembered: sessions, messages, the queue, and the turn that ties them to an execution."""
