"""What runs on the hosts: standard library only, Python 3.8 and later, a few megabytes of memory.

The controller sends these files through standard input (``netprobe.probe.launchers.bootstrap``), where they are the
package ``netprobe_agent``; so every import among them is relative, and nothing here imports the rest of
netprobe. Heavy modules (asyncio, typing, dataclasses, random, hmac) are left out on purpose: sixteen
agents may share one small machine.
"""
