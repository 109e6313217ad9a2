"""A round: many demands are given nodes in one pass.

Demands with equal needs form a group; a group asks once which nodes fit, and a policy says how many tasks each of them
gets (`shares`). Then the tasks are dealt out:

- *Fresh* demands, that nobody holds, are dealt like cards. The shares are written down node after node, and row after
  row takes the next one, around and around. A node's share is never longer than one time around, so no row meets a
  node twice; likewise zones, which are written down one after the other. Nothing is searched. Where each row wants one
  replica, zones do not matter.
- Demands that some node holds take, one by one, from the node with most of its share left that does not hold them, in
  a zone that has fewest of their replicas.
- A row that finds only nodes that hold it makes others move over: a chain of tasks of this same round, each to another
  node that fits, until one ends where there is room. So nothing waits that could be placed. With one cost for all this
  is exact (augmenting paths); among tasks of different cost only equal ones move, which is greedy.
- Demands that care what else a node holds, or whose tags others care about, are *tied*: they are given nodes one by
  one, each the roomiest that is allowed at that moment (`ties`), and nobody moves over for them.

Nodes that suit better, by preferred labels or users' rules, form *tiers*; the first tier is filled before the next gets
anything, as far as that leaves the replicas of a row in different zones.

Each priority is first tried as a whole. If something is left, that try is undone and the priority is filled level by
level: a first replica for everything before a second for anything.

Nodes are numbers in here, and sets of nodes are bits: see `fleet`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import chain

from rota.placement.core.fleet import FleetCapacity, Nodes, numbers
from rota.placement.core.partners import partners_first
from rota.placement.core.shares import Policy
from rota.placement.core.sharing import DemandGroup, NodeChoice, Row, Sharing
from rota.placement.core.ties import Ties

Groups = Mapping[DemandGroup, list[Row]]
"""The rows of each group, in order of their keys."""


class Round:
    """One pass over all demands; `fill` is called for each priority, the highest first."""

    def __init__(self, fleet: FleetCapacity, policy: Policy, seed: int) -> None:
        self._fleet, self._policy = fleet, policy
        self._sharing = Sharing(fleet, policy, seed)
        self.ties = Ties(fleet)
        self._rows: list[Row] = []
        self._at: Seated | None = None
        """Made when the first task has to move over."""

        self._dead_ends: dict[int, Nodes] = {}
        """By cost: full nodes whose tasks can only move among themselves. Room never grows, so they stay that."""

        self._moves: list[tuple[Row, tuple[NodeChoice, ...]]] = []
        """Who moved over, and the seats it had."""

    def fill(self, groups: Groups) -> None:
        """Give the rows of one priority what they want, or as much as there is, level by level."""
        by_scarcity = sorted(groups, key=_scarcity)
        order = partners_first([group.needs for group in by_scarcity])
        groups = {group: groups[group] for group in (by_scarcity[number] for number in order)}
        for rows in groups.values():
            self._rows += rows
        if len(groups) > 1 or not self._deal_evenly(*next(iter(groups.items()))):
            free, dead_ends, moves = list(self._fleet.free), dict(self._dead_ends), len(self._moves)
            ties = self.ties.remember()
            if all(self._whole(group, rows) for group, rows in groups.items()):
                return
            self._undo(groups, moves)
            self._fleet.restore(free)
            self.ties.restore(ties)
            self._dead_ends = dead_ends
        self._by_levels(groups)

    def _deal_evenly(self, group: DemandGroup, rows: list[Row]) -> bool:
        """Deal to rows that are all alike and fresh, which fills them level by level; False if they are not."""
        fresh, held = _sorted_out(rows)
        if held or len(fresh) > 1 or group.needs.is_tied:
            return False
        self._deal(group, rows, rows[0].wanted)
        return True

    def _whole(self, group: DemandGroup, rows: list[Row]) -> bool:
        """Give a group all it wants; False as soon as something is left."""
        if group.needs.is_tied:
            return self._tie(group, rows)
        fresh, held = _sorted_out(rows)
        if held:
            self._one_by_one(group, held)
        for (wanted, _), alike in sorted(fresh.items(), reverse=True):
            self._deal(group, alike, wanted)
        for row in rows:
            while row.lacks:
                if not self._insist(row):
                    return False
        return True

    def _undo(self, groups: Groups, moves: int) -> None:
        while len(self._moves) > moves:
            row, seats = self._moves.pop()
            row.seats = seats
        for row in chain.from_iterable(groups.values()):
            row.seats = ()
        self._at = None

    def _by_levels(self, groups: Groups) -> None:
        """A first replica for every row before a second for any; a row that gets none waits."""
        taken = -1
        while taken != self._fleet.taken:  # who is to be near to another that waits in a circle may come before it
            taken = self._fleet.taken
            self._level_after_level(groups)
            if not any(group.needs.near for group in groups):
                return

    def _level_after_level(self, groups: Groups) -> None:
        lacking = {group: [row for row in rows if len(row.seats) < row.wanted] for group, rows in groups.items()}
        level = 0
        while ahead := [row.level for rows in lacking.values() for row in rows if row.lacks and row.level >= level]:
            level = min(ahead)
            for group, rows in lacking.items():
                self._raise([row for row in rows if row.lacks and row.level == level], group)
            level += 1

    def _raise(self, rows: Sequence[Row], group: DemandGroup) -> None:
        """Give each of these rows one more replica, as far as that is possible."""
        if group.needs.is_tied:
            self._tie(group, rows, most=1)
            return
        fresh = [row for row in rows if not row.demand.holders and not row.seats]
        held = [row for row in rows if row.demand.holders or row.seats]
        before = [(row, len(row.seats)) for row in rows]
        if held:
            self._one_by_one(group, held, most=1)
        if fresh:
            self._deal(group, fresh, 1)
        for row, seats in before:
            if len(row.seats) == seats:
                self._insist(row)

    def _deal(self, group: DemandGroup, rows: Sequence[Row], each: int) -> None:
        """Deal fresh rows their seats, around and around. If there are too few, the first rows have one more."""
        shares = self._sharing.shares(group, len(rows), len(rows) * each)
        units: list[NodeChoice] = []
        for seat, share in shares:
            units += [seat] * share
            self._fleet.take(seat.number, share * group.needs.cost)
        around = len(rows)
        times, ahead = divmod(len(units), around)
        # Rows with neighbouring keys are often alike; a stride as wide as there are nodes sets them apart.
        order = [*_strided(rows[:ahead], len(shares)), *_strided(rows[ahead:], len(shares))]
        columns = [units[turn * around : (turn + 1) * around] for turn in range(times)]
        if columns:
            for row, seats in zip(order, zip(*columns, strict=True), strict=True):
                row.seats = seats
        for row, seat in zip(order[:ahead], units[times * around :], strict=True):
            row.seats += (seat,)
        if self._at is not None:
            for row in rows:
                for seat in row.seats:
                    self._at.add(row, seat.number)

    def _one_by_one(self, group: DemandGroup, rows: Sequence[Row], most: int | None = None) -> None:
        """Give rows that some nodes hold what they lack (at most `most` each), within the nodes' shares."""
        if not group.fit & self._fleet.with_room(group.needs.cost):
            return
        nodes = {row: len(self._sharing.nodes_of(row)) for row in rows}
        lacking = sum(row.lacks if most is None else min(row.lacks, most) for row in rows)
        stock = Stock(self._fleet, self._sharing.shares(group, len(rows), lacking, rows))
        zones = sorted({self._fleet.zones[number] for number in numbers(group.fit)})
        dead_ends = 0
        for row in sorted(rows, key=lambda row: -nodes[row]):
            for _ in range(row.lacks if most is None else min(row.lacks, most)):
                if seat := self._seat_for(row, stock, zones):
                    self._sit(row, seat)
                    continue
                target, dead_ends = self._move_over(row, group.fit, stock.nodes, dead_ends, at_worst=False)
                if target is None:
                    break  # the shares do not work out for this row: `_insist` takes what there is
                stock.spend(target)

    def _seat_for(self, row: Row, stock: "Stock", zones: Sequence[str]) -> NodeChoice | None:
        """A seat within the shares, in a zone with fewest replicas of the row."""
        held = self._held(row)
        if len(zones) < 2:
            return stock.draw(zones, held)
        there = self._sharing.zones_of(row)
        for count in sorted({0, *there.values()}):
            alike = [zone for zone in zones if there.get(zone, 0) == count]
            if not alike:
                continue
            if seat := stock.draw(alike, held):
                return seat
            # To be apart from the other replicas is worth more than exact shares.
            room = row.group.fit & ~held & self._fleet.with_room(row.demand.cost) & self._fleet.in_zones(alike)
            if room:
                return self._roomiest(row, room)
        return None

    def _tie(self, group: DemandGroup, rows: Sequence[Row], most: int | None = None) -> bool:
        """Give tied rows what they lack (at most `most` each), one by one; False if one of them gets less."""
        needs, is_done = group.needs, True
        for row in rows:
            for _ in range(row.lacks if most is None else min(row.lacks, most)):
                room = self.ties.allowed(needs) & self._fleet.with_room(needs.cost) & ~self._held(row)
                if not (nodes := room & group.fit or room & group.fit_at_worst):
                    is_done = False
                    break
                self._sit(row, self._roomiest(row, nodes))
                self.ties.note(needs, row.seats[-1].number)
        return is_done

    def _insist(self, row: Row) -> bool:
        """Give a row one seat wherever there is one, nodes to avoid last; False if there is none."""
        group, cost = row.group, row.demand.cost
        with_room = self._fleet.with_room(cost)
        if not with_room:
            return False
        held = self._held(row)
        for fit in (group.fit, group.fit_at_worst) if group.needs.avoid else (group.fit,):
            if room := fit & ~held & with_room:
                self._sit(row, self._roomiest(row, room))
                return True
            dead_ends = self._dead_ends.get(cost, 0)
            target, self._dead_ends[cost] = self._move_over(row, fit, with_room, dead_ends, at_worst=True)
            if target is not None:
                return True
        return False

    def _move_over(
        self, row: Row, fit: Nodes, targets: Nodes, dead_ends: Nodes, *, at_worst: bool
    ) -> tuple[int | None, Nodes]:
        """Seat a row by a chain of moves that ends at one of the targets: which one, and the dead ends known now."""
        frontier = fit & ~self._held(row) & ~dead_ends
        if not frontier or not targets & ~dead_ends:
            return None, dead_ends
        seated, seen = self._seated(), dead_ends | frontier
        came: dict[int, tuple[int, Row]] = {}
        while frontier:
            reached = 0
            for group in seated.groups(row.demand.cost):
                # Rows of a group differ only in what they hold, so the first ones reach nearly all that any can.
                unseen = (group.fit_at_worst if at_worst else group.fit) & ~seen
                for number, other in seated.rows(group, frontier) if unseen else ():
                    onward = unseen & ~self._held(other)
                    for further in numbers(onward & targets or onward):
                        came[further] = number, other
                    if hit := onward & targets:
                        target = numbers(hit)[0]
                        self._carry_out(row, target, came)
                        return target, dead_ends
                    reached |= onward
                    seen |= onward
                    unseen &= ~onward
                    if not unseen:
                        break
            frontier = reached
        return None, seen

    def _carry_out(self, row: Row, target: int, came: dict[int, tuple[int, Row]]) -> None:
        """Move every task along the chain, and seat the row where it begins."""
        self._fleet.take(target, row.demand.cost)
        seated = self._seated()
        while target in came:
            left, other = came[target]
            self._moves.append((other, other.seats))
            new = self._seat(target, "moved over so that another could be placed")
            other.seats = tuple(new if seat.number == left else seat for seat in other.seats)
            seated.remove(other, left)
            seated.add(other, target)
            target = left
        row.seats += (self._seat(target, "another moved over for it"),)
        seated.add(row, target)

    def _sit(self, row: Row, seat: NodeChoice) -> None:
        row.seats += (seat,)
        self._fleet.take(seat.number, row.demand.cost)
        if self._at is not None and not row.group.needs.is_tied:
            self._at.add(row, seat.number)

    def _roomiest(self, row: Row, nodes: Nodes) -> NodeChoice:
        """The node with most free slots, of those that suit best, where the zones have fewest replicas of the row."""
        fleet = self._fleet
        if self._sharing.has_zones:
            nodes = self._least_used_zones(row, nodes)
        nodes = next((nodes & tier for tier in row.group.tiers if nodes & tier), nodes)
        best = fleet.roomiest(self.ties.preferred(row.group.needs, nodes))
        return self._seat(best, f"{fleet.free[best]} slots free, the most of the nodes left for it")

    def _least_used_zones(self, row: Row, nodes: Nodes) -> Nodes:
        fleet = self._fleet
        there = self._sharing.zones_of(row)
        others = nodes & ~fleet.in_zones(there)
        while not others:  # each has a replica: then those with the fewest
            least = min(there.values())
            others = nodes & fleet.in_zones(zone for zone, count in there.items() if count == least)
            there = {zone: count for zone, count in there.items() if count > least}
        return others

    def _seat(self, number: int, why: str) -> NodeChoice:
        return NodeChoice(number, self._fleet.places[number].id, f"{self._policy.name}: {why}")

    def _held(self, row: Row) -> Nodes:
        return self._fleet.bits_of(self._sharing.nodes_of(row))

    def _seated(self) -> "Seated":
        if self._at is None:
            self._at = Seated(self._fleet)
            for row in self._rows:
                if not row.group.needs.is_tied:  # those stay where they are
                    for seat in row.seats:
                        self._at.add(row, seat.number)
        return self._at


class Seated:
    """Which rows have seats at which nodes, by group: used to find a task that can move over."""

    def __init__(self, fleet: FleetCapacity) -> None:
        self._bits = fleet.bits
        self._rows: dict[DemandGroup, dict[int, dict[Row, None]]] = {}
        self._nodes: dict[DemandGroup, Nodes] = {}
        self._by_cost: dict[int, list[DemandGroup]] = {}

    def add(self, row: Row, number: int) -> None:
        """A row has got a seat."""
        group = row.group
        if group not in self._rows:
            self._rows[group], self._nodes[group] = {}, 0
            self._by_cost.setdefault(group.needs.cost, []).append(group)
        self._rows[group].setdefault(number, {})[row] = None
        self._nodes[group] |= self._bits[number]

    def remove(self, row: Row, number: int) -> None:
        """A row has left its seat."""
        rows = self._rows[row.group][number]
        del rows[row]
        if not rows:
            self._nodes[row.group] &= ~self._bits[number]

    def groups(self, cost: int) -> Sequence[DemandGroup]:
        """Groups whose tasks take `cost` slots."""
        return self._by_cost.get(cost, ())

    def rows(self, group: DemandGroup, nodes: Nodes) -> Iterator[tuple[int, Row]]:
        """Rows of a group at these nodes, with the node."""
        nodes &= self._nodes[group]
        while nodes:
            number = (nodes & -nodes).bit_length() - 1
            for row in self._rows[group][number]:
                yield number, row
            nodes &= nodes - 1


class Stock:
    """What is left of the nodes' shares."""

    def __init__(self, fleet: FleetCapacity, shares: Iterable[tuple[NodeChoice, int]]) -> None:
        self._bits, self._zones = fleet.bits, fleet.zones
        self.nodes = 0
        """Those that have something left."""

        self._left: dict[int, int] = {}
        self._seats: dict[int, NodeChoice] = {}
        self._queues: dict[str, list[tuple[int, int]]] = {}
        for seat, share in shares:
            self.nodes |= self._bits[seat.number]
            self._left[seat.number], self._seats[seat.number] = share, seat
            self._queues.setdefault(fleet.zones[seat.number], []).append((-share, seat.number))
        for queue in self._queues.values():
            heapify(queue)

    def draw(self, zones: Iterable[str], held: Nodes) -> NodeChoice | None:
        """A seat at the node of these zones with most left that does not hold the row."""
        queues = [self._queues[zone] for zone in zones if zone in self._queues]
        for queue in sorted(queues, key=lambda queue: queue[:1]):
            if (number := self._first(queue, held)) is not None:
                return self._seats[number]
        return None

    def _first(self, queue: list[tuple[int, int]], held: Nodes) -> int | None:
        aside = []
        found = None
        while queue and found is None:
            entry = heappop(queue)
            left, number = -entry[0], entry[1]
            if left != self._left[number]:
                continue  # it was spent by a chain of moves, and stands elsewhere in the queue
            if held & self._bits[number]:
                aside.append(entry)
                continue
            found = number
        for entry in aside:
            heappush(queue, entry)
        if found is not None:
            self.spend(found)
        return found

    def spend(self, number: int) -> None:
        """One of a node's share is used up."""
        left = self._left[number] = self._left[number] - 1
        if not left:
            self.nodes &= ~self._bits[number]
        else:
            heappush(self._queues[self._zones[number]], (-left, number))


def _sorted_out(rows: Iterable[Row]) -> tuple[dict[tuple[int, int], list[Row]], list[Row]]:
    """Fresh rows by what they want and the level they are at; and those that some nodes hold."""
    fresh: dict[tuple[int, int], list[Row]] = {}
    held: list[Row] = []
    for row in rows:
        if row.demand.holders:
            held.append(row)
        else:
            fresh.setdefault((row.wanted, row.demand.level), []).append(row)
    return fresh, held


def _strided(rows: Sequence[Row], stride: int) -> Iterator[Row]:
    for start in range(min(stride, len(rows))):
        yield from rows[start::stride]


def _scarcity(group: DemandGroup) -> tuple[object, ...]:
    """The order of groups: those to be near others after those; then those with the fewest nodes, then the largest.

    The rest is there for a fixed order.
    """
    needs = group.needs
    plain = bool(needs.near), group.fit.bit_count(), -needs.cost, needs.kind, needs.labels, needs.pin or ""
    ties = needs.prefer, needs.near, needs.apart, needs.prefer_near, needs.prefer_apart, needs.tags
    return *plain, sorted(needs.avoid), sorted(needs.resting), *ties, repr(needs.about)
