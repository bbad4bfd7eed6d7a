"""How a link is measured: one file a method, each the controller's half of a task of the agents.

``base.py`` has the Protocol. A method says what it measures and what a visit costs, finds out which hosts
can take part, and turns one visit into the fields of one or more ``VisitResult``. A scan runs phases, each a
method and a chooser; methods are never mixed within a phase, so never within a matrix.
"""
