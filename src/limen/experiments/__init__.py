"""The gallery: one class per phenomenon, each with theory, simulation, figure and headline numbers."""
