"""The billing stage: exact, explainable records of what every attempt used, folded from job events and never overwritten."""
