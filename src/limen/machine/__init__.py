"""The machine: its memory, its compilation cache, its clock and Ctrl-C. Nothing here changes a number."""
