"""hosts -> scan: what is measured and what it will cost."""
