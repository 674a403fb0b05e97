"""The ordinary differential equations of the overlaps and how they are integrated."""
