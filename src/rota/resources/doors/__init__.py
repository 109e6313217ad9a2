"""What can be asked of resources and their kinds."""
