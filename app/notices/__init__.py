"""Notices: what is told to Slack, kept with the change that it announces until it is sent."""
