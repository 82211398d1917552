"""What the search itself costs and how its results grow with the trials."""
