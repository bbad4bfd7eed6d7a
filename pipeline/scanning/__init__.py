"""hosts -> scan: what is measured, what it will cost, and resuming a scan that ended early."""
