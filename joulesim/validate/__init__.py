"""How wrong predictions are: fits on records, and errors on what was left out."""
