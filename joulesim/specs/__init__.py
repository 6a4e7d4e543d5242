"""What is declared: typed, frozen, with units and sources. No arithmetic lives here."""
