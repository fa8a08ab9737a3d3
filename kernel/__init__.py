"""What runs, and how it is stopped. A Django app that knows no chat: any async work can be registered."""
