"""Preemption: searches for victims, claims on the places that they free, and notices.

A session searches for pods to evict at once (`victims`, `evictable`, `dry_run`) or for jobs to be given notice (`give_notice`).
Evictions keep places for the claimant (`kept_places`) and delay its next search (`backoff`). The cycle records the result of each
notice (`notice_controller`), and the state follows the records (`notice_fold`). Which change ends a notice is a table:
`statemachines.notice`.
"""
