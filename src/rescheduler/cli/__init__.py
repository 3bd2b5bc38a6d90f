"""The commands, one file each; flags and help follow the habits of kubectl."""
