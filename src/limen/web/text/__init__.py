"""Text for the page: equations, references, words on one line."""
