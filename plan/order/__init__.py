"""Plans of kind ``order``: which host takes which rank, for one algorithm of a collective.

request.py           what is requested, checked: OrderRequest
order.py             build_order_plan: from a request to a document
strategy.py          what depends on the algorithm; rings.py and annealed.py implement it, strategies.py chooses one
candidates.py        the original order, the leaf order, and those that were searched
link_costs.py        costs of links from a map
readings.py          what the readings behind a map add
cross_validation.py  what an order costs on readings held out
choice.py            which candidate to take
advice.py            what is recommended to the user, and why
figures.py           random orders, the optimality gap
order_proof.py       what such a plan says of itself, proved
"""
