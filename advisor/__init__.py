"""Shardwise's advisor: a pure library from a model and a budget to checked training settings.

Standard library and numpy only; frozen dataclasses in, frozen dataclasses out; no I/O but its own
data files, no clock, no logging.
"""

__version__ = "0.1.0"
