"""Animations of recorded runs, as HTML pages and as GIFs."""
