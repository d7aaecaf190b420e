"""Routes: parse, one call, render. No SQL and no arithmetic."""
