"""The loop, and the scores of what it learned."""
