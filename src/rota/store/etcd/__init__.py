"""The store on etcd, opened as `etcd://host:2379`; `store.py` is its front, and the only part others see."""
