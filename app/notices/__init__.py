"""Notices: what is told to people outside (Slack), written with the change that it announces."""
