"""What a scan keeps: options, visits, samples, the journal, and the result made of them."""
