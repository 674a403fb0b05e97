"""Online SGD of losses with summary statistics: in all dimensions, and as exact chains."""
