"""Measure: start agents, run rounds of visits, and make the Scan document of them.

scan/       a scan from start to end: phases, rounds, visits, the estimate of its cost
launchers/  start an agent on each host: ssh, exec prefixes, Slurm, Open MPI, Kubernetes
fleet/      the agents of a scan: connections, addresses, start and stop
agent/      what runs on the hosts; imports nothing of the rest of netprobe
methods/    how one link is measured, one file a method
rounds/     which links are measured next, and which at the same time
records/    options, visits, samples, journal, events and the result
audit/      what the hosts report that may make a reading doubtful
flows/      TCP flows between hosts, several at once
capacity/   capacities of hosts and uplinks, measured by several flows at once

``scan.session.run_scan`` runs a scan; ``measure`` is its asynchronous half. Nothing here prints: a scan reports
through ``on_event`` (``records.events``).
"""
