"""Tools by which programs that reason (agents) ask the advisor: the Model Context Protocol."""
