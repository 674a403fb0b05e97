"""Problems as text: files that are read and written, and the Python that poses them."""
