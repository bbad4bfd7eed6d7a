"""The agents of a scan, as the controller sees them.

fleet.py          start all agents, give each an address and a port, stop them
connection.py     one agent: handshake, pings, tasks and answers
addressing.py     the address of each host that its peers probe
duplicates.py     hosts that are the same machine
replaced.py       hosts rebooted or replaced since a scan began
stopping.py       stop work on a signal or an event
scapy_archive.py  scapy as a zip for the agents
"""
