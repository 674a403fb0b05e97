"""Leaving the equator: laws of the search phase and of hitting times."""
