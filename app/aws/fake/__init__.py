"""A stand-in for AWS on this machine, over HTTP: for the demo and for tests. It trains nothing."""
