"""STAMP (RFC 8762): round-trip times with kernel time stamps.

packet.py      test packets
sender.py      the session-sender: one series of probes
reflector.py   the session-reflector
departures.py  when its last reply to each sender left, and which probes it has answered
readings.py    round-trip times from the stamps of a series
reply_rate.py  the limit of replies for each sender and in all
stamping.py    kernel time stamps on UDP sockets
tasks.py       the tasks: open a reflector, run a series
"""
