"""Messages of collectives over TCP connections of their own, moved and added by a small library in C.

`build` compiles it where it runs (`collective.c` says how it works), `connect` opens the connections, `engine` calls
it. Where any rank has no compiler, or is told not to, all ranks send their messages through torch.distributed.
"""
