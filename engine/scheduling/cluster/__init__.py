"""The cluster as scheduling sees it: nodes as arrays, classes of pods, groups of pods, queues; kept from round to round."""
