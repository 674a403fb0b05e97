"""The families of problems, one file each."""
