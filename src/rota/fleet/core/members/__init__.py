"""Who may join, who is online, how busy a node is. Pure."""
