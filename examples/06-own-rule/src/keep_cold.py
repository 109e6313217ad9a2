"""A rule: rooms that few people listen to stay off the dear nodes, and go where an hour costs least."""

from rota.rules import Demand, Place, Rule


class KeepCold(Rule):
    def about(self, demand: Demand) -> bool:
        """All that counts of a resource: is it cold? So a million rooms are two classes."""
        return demand.kind == "room" and int(demand.spec.get("listeners", 0)) < 100

    def refuse(self, about: bool, node: Place) -> str:
        return "it is for rooms with 100 listeners or more" if about and node.labels.get("tier") == "gold" else ""

    def score(self, about: bool, node: Place) -> float:
        return 1 - float(node.labels.get("price", 1)) if about else 0.0
