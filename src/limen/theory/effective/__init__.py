"""Effective dynamics of online SGD: what summary statistics do as the dimension grows."""
