"""The page: theory at once and simulation arriving, in the browser."""
