"""RabbitMQ, by a small AMQP 0-9-1 publisher of our own (docs/adr/0025-own-amqp-publisher.md)."""
