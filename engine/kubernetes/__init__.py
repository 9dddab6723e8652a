"""Kubernetes objects: pod states and job requests, parsed once at the edge. Pure: bytes and objects in, facts out."""
