"""Where the ranks of a job run, as they print it themselves.

rank_program.py   the program that each rank runs, and the launcher commands that start it
rank_lines.py     the reader of what it printed
"""
