"""Sweeps: an experiment over grids of parameters, sizes and seeds, on one machine or a cluster, resumable.

Nothing is imported here: workers start with as little as they need.
"""
