"""The training program: knows only torch, obeys flat string settings, measures itself."""
