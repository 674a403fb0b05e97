"""Regression on given rows of data, by theories that know every row."""
