"""Further questions of a visitor: how they are checked, and how a worker answers them."""
