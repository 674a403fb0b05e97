"""Starts with given overlaps, as weights and as Gram matrices."""
