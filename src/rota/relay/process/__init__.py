"""The relay: takes emitted messages, publishes each once, and keeps them on disk while their sink is down."""
