"""Other products at the same work, each behind its smallest honest application."""
