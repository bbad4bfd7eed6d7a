"""STAMP (RFC 8762): packets, the session-sender, the session-reflector, kernel time stamps."""
