"""Jobs: orders of training runs, the worker that advances them, and the backends that run them."""
