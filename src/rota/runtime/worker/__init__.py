"""One worker process: its setup before it runs its body, and what ends it when nothing else can."""
