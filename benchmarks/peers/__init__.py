"""Servers that stand beside Rota's, each answering 100 bytes: what they are is said where they are measured."""
