"""Estimators and Hessians on drawn data."""
