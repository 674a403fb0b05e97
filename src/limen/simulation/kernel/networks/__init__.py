"""Deep networks trained for real, and their tangent features."""
