"""Which request goes to which worker: what waits, who works, what is late, and what is answered."""
