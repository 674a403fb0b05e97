"""Power-law features: exact risks, scaling laws and their phases."""
