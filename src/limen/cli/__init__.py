"""The command line: a thin layer over experiments, storage and drawing."""
