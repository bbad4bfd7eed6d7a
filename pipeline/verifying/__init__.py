"""plan -> verify: the plan against another order on the wire."""
