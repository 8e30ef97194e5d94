"""Template tags of the staff's pages."""
