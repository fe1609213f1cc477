"""Makes what ships: the catalogue, network cards, measured rows and fits. Not in the wheel."""
