"""Kubernetes objects: pod states and job requests, read once at the edge. Pure: bytes and objects in, facts out."""
