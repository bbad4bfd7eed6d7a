"""hosts -> scan: what is measured, what it will cost, and going on with a scan that ended early."""
