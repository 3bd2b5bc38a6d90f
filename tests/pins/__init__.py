"""Pins of what users see: recorded output of the command line, the controller and the generated references."""
