"""The service: HTTP, database, command line. The advisor does the thinking."""
