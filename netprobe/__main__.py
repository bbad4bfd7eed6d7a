"""``python -m netprobe`` is the command itself."""

from netprobe.cli import main

if __name__ == "__main__":
    main()
