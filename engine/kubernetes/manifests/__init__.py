"""What is submitted: the one admission of manifests, their rules, and the specification that they become."""
