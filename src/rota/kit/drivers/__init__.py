"""What drivers need that several adapters use. Imports none of them."""
