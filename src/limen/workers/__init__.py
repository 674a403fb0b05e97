"""Spawned processes that compute for a sweep or for the page."""
