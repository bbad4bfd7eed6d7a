"""scan.journal.jsonl -> the rest of a scan that was killed, and samples that a full disk lost."""
