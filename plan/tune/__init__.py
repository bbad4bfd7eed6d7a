"""Masters of 2LHA and flat aggregation moved while a job runs: numbers in, numbers out.

    masters.py    who is master of which chunk; what that gives each host to carry
    levels.py     what each host can send, by what it is seen to send
    quick.py      all masters shared out anew, at a sudden change
    fine.py       a few masters moved from the host that is to blame to the one that is least
    policy.py     what to do with each window of measurements, and when to leave everything as it is

Luo, *Towards More Efficient Communication for Distributed Learning Systems* (2020), section 4.2.3 (Autotune).
"""
