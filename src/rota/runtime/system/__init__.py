"""What the operating system can do for a node: process groups, cgroups, confinement, the data folder."""
