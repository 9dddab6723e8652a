"""Job, Task and Replica: their machines, their specification and the pure rules of their phases.

Everything here is a table or a pure function. The package imports nothing of Lahar; the lifecycle stage, the conformance runner and
the diagrams use it, so every rule has one home.
"""
