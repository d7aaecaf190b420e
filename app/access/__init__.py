"""Access: who may do what: API keys, roles, browser login, spending caps, and the audit trail."""
