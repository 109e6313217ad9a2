"""Who may come in at a door, and how much one caller may use."""
