"""One worker process: what it is before it runs its body, and what ends it when nothing else can."""
