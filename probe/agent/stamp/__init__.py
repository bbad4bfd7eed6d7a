"""STAMP (RFC 8762): round-trip times with kernel time stamps.

packet.py      test packets
sender.py      the session-sender: one series of probes, with T1 and T4
reflector.py   the session-reflector: it answers with T2 and T3
departures.py  when its last reply to each sender left, and which probes it has answered
readings.py    round-trip times from the stamps of a series
reply_rate.py  the limit of replies for each sender and in all
tasks.py       the tasks: open a reflector, run a series

Stamps themselves are the kernel's: ``kernel_stamps.py`` in the folder above.
"""
