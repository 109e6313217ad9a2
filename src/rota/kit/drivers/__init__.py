"""What several adapters need for the same driver. Imports no driver."""
