"""Measuring: launchers, agents, rounds, visits, the journal, and the Scan made of them.

``run_scan`` is the one call that does it all; ``measure`` is its asynchronous half. The order of the work
is: a launcher starts an agent on each host (launch.py, ssh.py), the controller shakes hands with it
(connection.py), an address is chosen for each host (addressing.py), a chooser names the links of each round
(chooser.py, rounds.py), and every finished visit goes to the journal (journal.py) and at the end into the
document (result.py). Nothing here prints; what happens is told through ``on_event`` (events.py).
"""
