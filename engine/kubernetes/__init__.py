"""Kubernetes objects: what a pod shows, what a job asks for, read once at the edge. Pure: bytes and objects in, facts out."""
