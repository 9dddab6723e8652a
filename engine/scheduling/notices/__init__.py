"""Preemption with notice: records of a notice until it ends.

A session chooses victims and reviews open notices (`engine.scheduling.preemption.give_notice`); the cycle then records the result
for each notice (`notice_controller`), and the state follows the records (`evolve`). Which change ends a notice is a table:
`statemachines.notice`.
"""
