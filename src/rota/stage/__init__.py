"""The stage on which tests run an app, in one process and in virtual time. `rota.testing` is its public name."""
