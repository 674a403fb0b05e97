"""Averages over a fresh Gaussian input of functions of a network and its target, for every chapter of theory."""
