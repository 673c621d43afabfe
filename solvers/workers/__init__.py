"""Batches of signals on threads, processes and clusters, with progress."""
