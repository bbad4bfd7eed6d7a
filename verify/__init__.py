"""An order against another one on the wire."""
