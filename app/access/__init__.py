"""Access: who may read, submit and spend."""
