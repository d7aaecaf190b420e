"""Plots of an answer: each is a table first, and a picture of that table."""
