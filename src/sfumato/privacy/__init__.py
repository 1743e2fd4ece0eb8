"""What is promised, what it rules out, and what has been spent of it."""
