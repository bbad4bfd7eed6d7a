"""The agents of a scan: connections, addresses, bringing them up and ending them."""
