"""The verbs and the metrics of a node's services."""
