"""Regression and classification on drawn or real data: ridge, random features, wide networks."""
