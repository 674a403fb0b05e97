"""Classification: margins, separability, capacity."""
