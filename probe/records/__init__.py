"""What a scan records: options, visits, samples, the journal, and the result.

options.py     options of a scan, validated once
events.py      events that a running scan reports
visits.py      one visit: counts, readings, and where its samples are
samples.py     raw samples of many visits in one table
percentile.py  percentiles of small sets of samples
journal.py     every finished visit on disk, to resume a scan
matrices.py    matrices [src, dst] and columns from visits
result.py      the Scan document from visits
"""
