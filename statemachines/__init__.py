"""Job, Task and Replica: their machines, their specification and the pure rules that move them.

Everything here is a table or a pure function. The package imports nothing of Lahar; the lifecycle stage, the conformance
runner and the diagrams all use it, so there is one place where a rule can be right or wrong.
"""
