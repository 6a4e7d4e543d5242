"""Physics of one inference call and of the answer it serves: plain functions of numpy arrays or floats."""
