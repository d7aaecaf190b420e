"""Jobs: training runs that were asked for, carried out by one of the backends, and followed."""
