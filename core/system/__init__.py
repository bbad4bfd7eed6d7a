"""What netprobe asks of the machine it runs on: namespaces, interrupts, temporary files, installs."""
