"""Rename classes all over the tree, by the table in `TABLE`: one name for one thing.

    python scripts/rename_classes.py [--moves FILE]   rename, then format and sort imports
    python scripts/rename_classes.py --twice          class names that are used more than once
    python scripts/rename_classes.py --wire           a digest of stored and sent bytes, which renaming must not change

Names are resolved, not searched for: each use is followed through imports and re-exports to the class it means. What is
rewritten: definitions, imports, `module.Name`, annotations in quotes, `__all__`, `"rota.module.Name"` in strings, and
mentions in backticks where they mean one class. An alias that kept two classes of one name apart is dropped.

A class with `tag=True` is named by its tag in bytes; a renamed one gets its old name as an explicit tag.

The script may run on any version of the tree, and more than once. A class that left its module is looked for where
`--moves` says (lines as `moved` reads them), then in parts of the module, its package, and modules with the same
last name. What is not found, or ambiguous, is reported.
"""

import argparse
import ast
import hashlib
import importlib
import io
import json
import pkgutil
import re
import subprocess
import sys
import textwrap
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parent.parent
CODE = ("src", "tests", "shows", "benchmarks", "examples", "scripts")
TEXT = ("docs", "proto", "README.md", "CONTRIBUTING.md", "CHANGELOG.md")

TABLE = """
api.behind Behind NodeBackend
api.budget Budget CallerBudget
api.calls Call HttpCall
api.entry Entry EntryMiddleware
api.families Declared MetricFamily
api.health Health HealthChecks
api.health Progress LoopProgress
api.health Verdict HealthVerdict
api.http _Connection _HttpConnection
api.idempotency Note IdempotencyNote
api.introspection Catalogue DescriptorCatalogue
api.job_operations _Listed _RunFilter
api.methods Call GrpcCall
api.methods Stream StreamingMethod
api.metrics Figures NodeFigures
api.openapi _Plain _PlainPath
api.operations _Listed _ResourceFilter
api.resource_reading Wanted ResourceFilter
api.overview Seen FleetSnapshot
api.pulse Beat PulseBeat
api.sse Told ServerEvent
api.steer Verb SteerVerb
api.verbs Asked VerbField
cli.fleet Fleet FleetClient
cli.options Output OutputOption
cli.progress Progress ProgressLine
cli.settings Option SettingOption
cli.settings _Written _SettingType
cli.targets Server ServerTarget
cli.targets Target FleetTarget
cli.up Fleet NodeProcesses
cli.verbs Listing ListingGroup
client.blocking _Connection _BlockingConnection
client.exchange Intake AnswerParser
client.exchange Peer ServiceAddress
committers.catalogue Catalogue PublishedCatalogue
committers.port Lost PublishedLost
committers.rowfiles Layout FileLayout
committers.rowfiles Parts FolderColumns
committers.rowfiles _Written _OpenFile
committers.sql.committer Work SqlWork
committers.verdict Verdict PublishVerdict
compose.member Member FleetMember
compose.parts Parts NodeParts
compose.parts Settings NodeSettings
control.declared _Keeping _DeclaredSync
control.jobs.clock Sample ClockSample
control.jobs.ends Ended EndedAttempt
control.jobs.ends Outcomes PendingOutcomes
control.jobs.owner Owner RunOwner
control.jobs.owner Runs AttemptRunner
control.jobs.part Surroundings JobsDependencies
control.jobs.scheduler Standing NodeStandings
control.jobs.scheduler _Told _StepReport
control.jobs.view Known KnownJob
control.jobs.writing Writer StepWriter
control.leader Candidate LeaderCandidate
control.plan Change PlannedChange
control.plan Plan PlacementPlan
control.relays _Keeping _RelayMapSync
decide.access Admitted AdmittedCaller
decide.access Known KnownToken
decide.coverage Hold AssignedTask
decide.crew Crew CrewState
decide.crew Drain DrainWorker
decide.crew Kill KillWorker
decide.crew Member CrewMember
decide.crew Phase WorkerPhase
decide.crew Plan CrewPlan
decide.crew Pool WorkerPool
decide.crew Start StartWorker
decide.declared Difference ResourceDiff
decide.election Seen LeaderKeyState
decide.episodes Told EpisodeReport
decide.episodes Waiting OpenWait
decide.fleet Admitted AdmittedNode
decide.fleet Claim FleetClaim
decide.fleet Surroundings StoreFacts
decide.jobs.backfill Kept KeptDueTimes
decide.jobs.declared Difference JobDiff
decide.jobs.declared Owner DeclarationOwner
decide.jobs.dispatch Bind BindRun
decide.jobs.dispatch Member EligibleNode
decide.jobs.dispatch Plan DispatchPlan
decide.jobs.due Claim DueClaim
decide.jobs.preview Coming UpcomingDueTime
decide.jobs.why Held HoldReason
decide.listing Apply ApplyListing
decide.listing Ask QuerySource
decide.listing Hold HoldListing
decide.listing Listed ListedResource
decide.listing Wait WaitUntil
decide.load Candidate LoadCandidate
decide.membership Moves MembershipChanges
decide.pace Pace TokenBucket
decide.peers Ledger StrikeLedger
decide.peers Verdict PeerVerdict
decide.placement.assign Held Holdings
decide.placement.demand Bind BindReplica
decide.placement.fleet Fleet FleetCapacity
decide.placement.round Group DemandGroup
decide.placement.round Seat NodeChoice
decide.placement.shares Offer NodeOffer
decide.places Seat OpenConnection
decide.streams.group Member GroupMember
decide.streams.health Health StreamHealth
decide.streams.plan Plan GroupPlan
kit.aside Aside Offload
kit.frames Decoder FrameDecoder
kit.loglines JsonLines JsonFormatter
kit.loglines Lines TextFormatter
kit.records Record FramedRecord
kit.virtual Group CallbackGroup
kit.virtual Handle VirtualHandle
model.event Kind EventKind
model.link Refused AttemptRefused
model.link Start StartAttempt
model.problems Problem ProblemCode
node.admin Door AdminDoor
node.admin_protocol Asked AdminRequest
node.admin_protocol Clear ClearRequest
node.admin_protocol Ret AdminStatus
node.assignments Known AssignmentOrders
node.assignments Memory SavedStates
node.assignments Work TaskRunner
node.assignments _Held _HeldOrder
node.control_socket Refused ControlError
node.deadline Leash LeaseDeadline
node.emitting Aside EmitterThread
node.executor Inbox OrderQueue
node.executor _Desk _AttemptLoop
node.executor _Leave _ExecutorStopped
node.guard Guard WorkerGuard
node.guard Leash AgentLifeline
node.guard Page DeadlinePage
node.kept Kept KeptFile
node.kept Sources AppSources
node.kernel Ended EndedProcess
node.kernel Handle ProcessHandle
node.loaders Listener LoaderListener
node.loaders Target LoadTarget
node.open_attempts _Told _OutcomeDelivery
node.output Answer AttemptAnswer
node.pipes Fleet RelaysAre
node.pipes Message PipeMessage
node.pipes Place SharedAddress
node.printed Line WorkerLine
node.proxies Proxy ProxyProcess
node.proxy.seats Line WorkerConnection
node.queries Sources SourceRunner
node.queries _Answer _QueryRun
node.relay.hold RelayHold NodeRelay
node.relay.lines Coming InboundConnection
node.relay.lines Lines InboundConnections
node.relay.main Process RelayProgram
node.relay.memory Memory RelayMemory
node.relay.tls Tls RelayTls
node.relay.ways Ways PeerLinks
node.relay.wire Ack AckFrame
node.relay.wire Batch BatchFrame
node.relay.wire Opening OpeningFrame
node.relay.wire Record RelayFrame
node.relay.wire Refusal RefusalFrame
node.relay.wire Ship ShipFrame
node.relay.wire Shipped ShippedFrame
node.relay.wire Wire FrameConnection
node.relay.works Works OutletRunner
node.roles Role WorkerRole
node.runs Runs AcceptedRuns
node.seats Seat ExecutorSeat
node.service _Counter _ParcelServer
node.service _Plain _Sequential
node.services Services ServiceManager
node.session Patience TakeoverWait
node.session Session NodeSession
node.tee Keeper LineBuffer
node.token Held TokenHolder
node.trial Trial GenerationTrial
rpc.grpc.guard Guard GuardInterceptor
rpc.grpc.server Answers LinkServicer
rpc.memory Door MemoryServer
rpc.memory Network MeshNetwork
rpc.port Handler NodeHandler
rpc.port Link NodeLink
rpc.port Server LinkServer
sdk.aside Aside FunctionThread
sdk.declared Source ResourceSource
sim.jobs Answers SimLinkHandler
sim.network Network SimNetwork
sim.outside Broker SimBroker
sim.outside Link SimConnection
sim.peers _Blind _BlindKeeper
sim.relaying Fleet SimFleet
sim.run Verdict SeedVerdict
sim.scale Trial ScaleTrial
sim.service_node Line SimPipe
sim.service_node Observer ServiceObserver
sim.services Asked SimRequest
sim.services Services ServicesScenario
sim.stream_node _Blind _BlindCatalogue
sim.tryout Outcome TryoutOutcome
sim.tryout Sample TryoutSample
sim.world Process SimProcess
sinks.amqp.connection Connection AmqpConnection
sinks.amqp.connection Listener ChannelListener
sinks.amqp.connection News ConnectionListener
sinks.amqp.frames Decoder AmqpDecoder
sinks.amqp.frames Reader FieldReader
sinks.amqp.publishing Route PublishRoute
sinks.kafka Client KafkaProducer
sinks.kafka Delivery DeliveryReport
sinks.lines Line MessageLine
sinks.lines Writer LineWriter
sinks.memory Broker MemoryBroker
sinks.patience Patience RetryBackoff
sinks.window Window ShardWindow
sources.lines Line RecordLine
sources.log.layout Partition PartitionFolder
sources.log.layout Place LogFolder
sources.log.partition Lost RecordsLost
sources.log.retention Kept KeptSegment
sources.log.segment Segment LogSegment
sources.log.settings Settings LogSettings
sources.memory Partition MemoryPartition
sources.topics Place SourcePartition
store.audit Note AuditRecorder
store.backup Loaded LoadResult
store.dumpfile Line DumpLine
store.etcd.client Client EtcdClient
store.etcd.clock Reading ClockReading
store.etcd.endpoints Endpoint EtcdEndpoint
store.etcd.errors Refused EtcdRefused
store.etcd.place Place WatchPosition
store.etcd.settings Settings EtcdSettings
store.etcd.settings Tls EtcdTls
store.etcd.wire Wire NamespaceCodec
store.events Reading EventSlice
store.follow News PrefixChanges
store.keeper Aside RenewalRunner
store.keeper Keeper LeaseKeeper
store.port Listing ScanResult
store.sql.group Committer GroupCommitter
store.sql.group Waiting QueuedRequest
store.sql.remote Link SqlLink
store.sql.remote Pool LinkPool
store.sql.remote Refusal TransactionRefusal
store.sql.sqlite Connection SqliteConnection
store.sql.sqlite Job ThreadCall
store.sql.sqlite Worker ConnectionThread
store.sql.steps Batch SqlBatch
store.sql.steps Nothing NothingChanged
store.sql.steps Query SqlQuery
store.sql.sweep Observer LeaseObserver
store.sql.sweep Seen LeaseRow
store.sql.transactions Ledger TableChanges
store.sql.transactions Made GroupResult
store.sql.transactions Page CommitPage
store.sql.transactions Request CommitRequest
workloads.context _Held _TaskBase
workloads.jobs.run App JobLookup
workloads.jobs.run Attempt AttemptIdentity
workloads.jobs.run Halt AttemptStop
workloads.jobs.run Job RunnableJob
workloads.resources.dedup Window DedupWindow
workloads.resources.relay.held Batch InboundBatch
workloads.resources.relay.held Budget MemoryBudget
workloads.resources.relay.held Held HeldMessage
workloads.resources.relay.held Limits RelayLimits
workloads.resources.relay.held Line InboundLine
workloads.resources.relay.held Place RelayedResource
workloads.resources.relay.held Refused RefusedMessage
workloads.resources.relay.moves Moves RelayMoves
workloads.resources.relay.peers Peer PeerRelay
workloads.resources.run Kind RunnableKind
workloads.resources.run Offer TaskEnvironment
workloads.resources.run Order TaskIdentity
workloads.resources.run Outcome TaskOutcome
workloads.services.desk Desk RequestRunner
workloads.services.dispatch Group WorkerGroup
workloads.services.dispatch Seat WorkerSeat
workloads.services.dispatch Ticket PendingRequest
workloads.services.figures Figures ProxyFigures
workloads.services.frames Wire FrameCodec
workloads.services.parcels Inbox ParcelDecoder
workloads.services.table Route CmdRoute
workloads.streams.pace Pace ReadPace
workloads.streams.progress Closed ClosedSequence
workloads.streams.progress Progress TaskProgress
workloads.streams.run Limits SequenceLimits
workloads.streams.transform Made TransformResult
workloads.streams.vanished Halt StreamHalt
"""
"""Module below `rota`, the class's name, its new name."""

MENTIONS = (
    ("CONTRIBUTING.md", "One behind a network is a `Link`", "One behind a network is a `SqlLink`"),
    ("CONTRIBUTING.md", "`Fleet.eligible`", "`FleetCapacity.eligible`"),
    ("docs/explanation/node-link.md", "what the `Handler` returns", "what the `NodeHandler` returns"),
    ("docs/adr/0010-freezing-by-context.md", "`Group.enter`", "`CallbackGroup.enter`"),
)
"""Mentions in texts which only a reader can tell: file, before, after."""

KEPT = {
    *("bodies.Health", "bodies.Session", "bodies.Problem", "bodies.Nothing", "audit.Verdict", "verbs.Verb"),
    *("job.Outcome", "records.Outcome", "stream.Group", "hook.Delivery", "resource.Listing", "resource.Query"),
    *("crew.Crew", "pipes.Clear", "pipes.Told", "pipes.Listed", "pipes.Loaded", "pipes.Beat", "pipes.Ask"),
    *("demand.Place", "listening.Wanted", "node.Role", "staged.Sink", "sinks.port.Sink", "sources.port.Source"),
}
"""Classes with a namesake in the table that keep their names, by the last parts of their own."""

WIDTH = 120

Class = tuple[str, str]
"""A class: its module and its name there."""

Meaning = Class | str | None
"""What a name means: a class, a module by its name, or nothing that matters here."""

DOTTED = re.compile(r"(?<![\w./-])((?:[a-z_]\w*\.)+)(_?[A-Z]\w*)")
TICKED = re.compile(r"`((?:[a-z_]\w*\.)*)(_?[A-Z]\w*)(?=[`.(\[])")
PATH = re.compile(r"`([\w/]+)\.py`")


@dataclass
class Scope:
    """What names are bound to in a module, class or function. None: to what is no import and no class."""

    parent: "Scope | None" = None
    is_class: bool = False
    names: dict[str, list[tuple[str, str] | None]] = field(default_factory=lambda: defaultdict(list))
    """Name → where it comes from: (module, name) of an import, ("", name) of a class here, (module, "") of a module."""

    def bound(self, name: str) -> list[tuple[str, str] | None]:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names and (scope is self or not scope.is_class):
                return scope.names[name]
            scope = scope.parent
        return []


class File:
    """A file of code, with the scope that each node of it is evaluated in."""

    def __init__(self, path: Path, root: Path) -> None:
        self.path, self.source = path, path.read_text()
        parts = list(
            path.relative_to(root / "src" if path.is_relative_to(root / "src") else root).with_suffix("").parts
        )
        self.is_package = parts[-1] == "__init__"
        self.module = ".".join(parts[:-1] if self.is_package else parts)
        self.tree = ast.parse(self.source)
        self.top = Scope()
        self.scopes: dict[ast.AST, Scope] = {}
        self.classes: dict[str, ast.ClassDef] = {}
        self._enter(self.tree.body, self.top)

    @cached_property
    def starts(self) -> list[int]:
        """Where each line begins, in bytes."""
        starts = [0]
        for line in self.source.encode().splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        return starts

    def at(self, line: int, column: int) -> int:
        return self.starts[line - 1] + column

    def _enter(self, nodes: Iterable[ast.AST], scope: Scope) -> None:
        for node in nodes:
            self.scopes[node] = scope
            match node:
                case ast.ClassDef():
                    scope.names[node.name].append(("", node.name) if scope is self.top else None)
                    if scope is self.top:
                        self.classes[node.name] = node
                    self._enter((*node.decorator_list, *node.bases, *node.keywords), scope)
                    self._enter(node.body, Scope(scope, is_class=True))
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    scope.names[node.name].append(None)
                    self._enter((*node.decorator_list, *filter(None, [node.returns])), scope)
                    self._enter_function(node.args, node.body, scope)
                case ast.Lambda():
                    self._enter_function(node.args, [node.body], scope)
                case ast.Import():
                    for each in node.names:
                        bound = each.asname or each.name.split(".")[0]
                        scope.names[bound].append((each.name if each.asname else bound, ""))
                case ast.ImportFrom():
                    for each in node.names:
                        scope.names[each.asname or each.name].append((self.imported(node), each.name))
                case _:
                    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                        scope.names[node.id].append(None)
                    self._enter(ast.iter_child_nodes(node), scope)

    def _enter_function(self, args: ast.arguments, body: Iterable[ast.AST], scope: Scope) -> None:
        self.scopes[args] = scope
        given = [*args.posonlyargs, *args.args, *args.kwonlyargs, *filter(None, [args.vararg, args.kwarg])]
        outer: list[ast.AST] = [*args.defaults, *(each for each in args.kw_defaults if each)]
        self._enter((*outer, *(each.annotation for each in given if each.annotation)), scope)
        inner = Scope(scope)
        for each in given:
            self.scopes[each] = scope
            inner.names[each.arg].append(None)
        self._enter(body, inner)

    def imported(self, node: ast.ImportFrom) -> str:
        """The full name of the module that this takes names from."""
        if not node.level:
            return node.module or ""
        package = self.module.split(".")
        package = package[: len(package) - node.level + self.is_package]
        return ".".join([*package, *filter(None, [node.module])])


class Tree:
    """All code, and what its names mean."""

    def __init__(self, root: Path) -> None:
        self.root = root
        paths = [path for top in CODE for path in sorted((root / top).rglob("*.py"))]
        self.files = [
            File(path, root)
            for path in paths
            if not path.name.endswith(("_pb2.py", "_pb2_grpc.py")) and path != Path(__file__).resolve()
        ]
        self.modules = {each.module: each for each in self.files}
        self.packages = {name.rsplit(".", count)[0] for name in self.modules for count in range(name.count(".") + 1)}
        self.rota = {name: each for name, each in self.modules.items() if name.split(".")[0] == "rota"}

    def classes(self, name: str) -> list[str]:
        """Modules of Rota with a class of this name."""
        return [module for module, each in self.rota.items() if name in each.classes]

    def attribute(self, module: str, name: str, asked: frozenset[Class] = frozenset()) -> Meaning:
        """What `name` means in a module, seen from outside."""
        found = self.modules.get(module)
        if found and name in found.top.names and (module, name) not in asked:
            return self.meaning(found, found.top, name, asked | {(module, name)})
        return full if (full := f"{module}.{name}") in self.packages else None

    def meaning(self, file: File, scope: Scope, name: str, asked: frozenset[Class] = frozenset()) -> Meaning:
        """What `name` means where it is used."""
        for origin in scope.bound(name):
            match origin:
                case None:
                    continue
                case ("", own):
                    return file.module, own
                case (module, ""):
                    return module
                case (module, taken):
                    return self.attribute(module, taken, asked)
        return None

    def of(self, file: File, node: ast.expr, scope: Scope) -> Meaning:
        """What an expression of names and dots means."""
        match node:
            case ast.Name(id=name):
                return self.meaning(file, scope, name)
            case ast.Attribute(value=value, attr=name):
                base = self.of(file, value, scope)
                return self.attribute(base, name) if isinstance(base, str) else None
        return None

    def named(self, dotted: str, name: str) -> Meaning:
        """What `dotted.name` means in a text, where a module may be named by its last parts."""
        parts = dotted.rstrip(".")
        if isinstance(found := self.attribute(parts, name), tuple):
            return found
        ends = [module for module in self.rota if f".{module}".endswith(f".{parts}")]
        meant = {each for module in ends if isinstance(each := self.attribute(module, name), tuple)}
        return meant.pop() if len(meant) == 1 else None

    def bases(self, file: File, node: ast.ClassDef) -> Iterator[tuple[File, ast.ClassDef]]:
        """A class's own definition, and those of its bases in this tree."""
        yield file, node
        for base in node.bases:
            match self.of(file, base, file.top):
                case (module, name) if name in self.modules[module].classes:
                    yield from self.bases(self.modules[module], self.modules[module].classes[name])


@dataclass
class Renaming:
    """New names of classes, and the edits that follow."""

    tree: Tree
    new: dict[Class, str]
    warnings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.edits: dict[File, set[tuple[int, int, str]]] = defaultdict(set)
        self.dropped: dict[tuple[int, str], str] = {}
        """Aliases that go, by scope and name, and the names that take their places."""
        names = Counter(name for each in self.tree.rota.values() for name in each.classes)
        for (_, old), name in self.new.items():
            names[old] -= 1
            names[name] += 1
        self.count_after = names
        self.freed = {old for _, old in self.new}

    def name_of(self, meaning: Meaning) -> str | None:
        return self.new.get(meaning, meaning[1]) if isinstance(meaning, tuple) else None

    def run(self) -> None:
        for file in self.tree.files:
            self._code(file)
            self._mentions(file)
        for file, edits in self.edits.items():
            data = file.source.encode()
            for start, end, text in sorted(edits, reverse=True):
                data = data[:start] + text.encode() + data[end:]
            file.path.write_bytes(data)

    def warn(self, file: File, line: int, text: str) -> None:
        self.warnings.append(f"{file.path.relative_to(self.tree.root)}:{line}: {text}")

    def edit(self, file: File, start: int, old: str, new: str) -> bool:
        """Replace `old` at a place; False if something else is there."""
        end = start + len(old.encode())
        if file.source.encode()[start:end] != old.encode():
            return False
        self.edits[file].add((start, end, new))
        return True

    # Code

    def _code(self, file: File) -> None:
        for node in ast.walk(file.tree):
            if isinstance(node, ast.ImportFrom):
                self._import(file, node)
        strings = [node for node in ast.walk(file.tree) if isinstance(node, ast.JoinedStr)]
        in_strings = {id(each): outer for outer in strings for each in ast.walk(outer)}
        for node in ast.walk(file.tree):
            match node:
                case ast.ClassDef() if file.classes.get(node.name) is node:
                    self._definition(file, node)
                case ast.Name() | ast.Attribute():
                    self._use(file, node, file.scopes[node], 0, in_strings.get(id(node)))
                case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                    self._exports(file, value)
                case ast.Call():
                    self._call(file, node)
                case ast.AnnAssign() | ast.arg() if node.annotation:
                    self._quoted(file, node.annotation)
                case ast.FunctionDef() | ast.AsyncFunctionDef() if node.returns:
                    self._quoted(file, node.returns)
                case ast.Subscript(slice=part) if not isinstance(node.value, ast.Constant):
                    if not (isinstance(part, ast.Constant) and _looks_plain(node)):
                        self._quoted(file, part)

    def _import(self, file: File, node: ast.ImportFrom) -> None:
        scope, module = file.scopes[node], file.imported(node)
        for each in node.names:
            meaning = self.tree.attribute(module, each.name)
            name = self.name_of(meaning)
            if not isinstance(meaning, tuple) or name is None:
                continue
            is_class_alias = each.asname is not None and re.match(r"_?[A-Z][a-z]", each.asname)
            if each.asname is None or not is_class_alias:
                shown = name if meaning in self.new and each.name == meaning[1] else each.name
                if shown != each.name and each.asname is None and self._is_taken(file, shown, meaning):
                    self.warn(file, each.lineno, f"{shown} has another meaning here; {each.name} stays as an alias")
                    shown, self.dropped[id(scope), each.name] = f"{shown} as {each.name}", each.name
                if shown != each.name:
                    self.edit(file, file.at(each.lineno, each.col_offset), each.name, shown)
                continue
            was_twice = meaning in self.new or meaning[1] in self.freed
            can_drop = name == each.asname or (
                was_twice and self.count_after[name] == 1 and not self._is_taken(file, name, meaning)
            )
            shown = name if can_drop else f"{name} as {each.asname}"
            if can_drop:
                self.dropped[id(scope), each.asname] = name
            start, end = file.at(each.lineno, each.col_offset), file.at(each.end_lineno or 0, each.end_col_offset or 0)
            self.edits[file].add((start, end, shown)) if shown != file.source.encode()[start:end].decode() else None

    def _is_taken(self, file: File, name: str, meaning: Class) -> bool:
        """Will `name` mean anything else than that class in this file?"""
        for scope in {id(each): each for each in file.scopes.values()}.values():
            for bound in scope.names:
                other = self.tree.meaning(file, scope, bound)
                if other == meaning:
                    continue
                if bound == name and not (isinstance(other, tuple) and other in self.new and other[1] == bound):
                    return True
                if isinstance(other, tuple) and self.new.get(other) == name and other[1] == bound:
                    return True
        return False

    def _use(
        self, file: File, node: ast.Name | ast.Attribute, scope: Scope, shift: int, outer: ast.JoinedStr | None = None
    ) -> None:
        if isinstance(node, ast.Name):
            old, new = node.id, self._local(file, scope, node.id)
            start = file.at(node.lineno, node.col_offset) + shift
        else:
            old, meaning = node.attr, self.tree.of(file, node, scope)
            new = self.new.get(meaning) if isinstance(meaning, tuple) and meaning[1] == old else None
            start = file.at(node.end_lineno or 0, node.end_col_offset or 0) - len(old.encode()) + shift
        if new is None or new == old or (outer is None and self.edit(file, start, old, new)):
            return
        if outer is None:
            self.warn(file, node.lineno, f"{old} is not where it should be")
            return
        begin, end = (  # Python 3.11 does not say where a name in an f-string is
            file.at(outer.lineno, outer.col_offset),
            file.at(outer.end_lineno or 0, outer.end_col_offset or 0),
        )
        text = file.source.encode()[begin:end].decode()
        for found in re.finditer(rf"(?<=[{{(\[ ,.]){re.escape(old)}\b", text):
            before = text[: found.start()]
            if before.count("{") > before.count("}"):
                self.edit(file, begin + len(before.encode()), old, new)

    def _local(self, file: File, scope: Scope, name: str) -> str | None:
        """What a name is to become where it is used, or None."""
        holder: Scope | None = scope
        while holder is not None and (name not in holder.names or (holder.is_class and holder is not scope)):
            holder = holder.parent
        if holder is None:
            return None
        if (id(holder), name) in self.dropped:
            return self.dropped[id(holder), name]
        meaning = self.tree.meaning(file, scope, name)
        return self.new.get(meaning) if isinstance(meaning, tuple) and meaning[1] == name else None

    def _definition(self, file: File, node: ast.ClassDef) -> None:
        new = self.new.get((file.module, node.name))
        if new is None:
            return
        data = file.source.encode()
        start = file.at(node.lineno, node.col_offset)
        start = data.index(b"class", start) + len(b"class ")
        self.edit(file, start, node.name, new)
        for number, (at, each) in enumerate(self.tree.bases(file, node)):
            tag = next((one for one in each.keywords if one.arg == "tag"), None)
            if tag is None:
                continue
            if number == 0:
                if isinstance(tag.value, ast.Constant) and tag.value.value is True and not self._has_heirs(file, node):
                    where = at.at(tag.value.lineno, tag.value.col_offset)
                    self.edit(file, where, "True", f'"{node.name}"')
            elif isinstance(tag.value, ast.Constant) and tag.value.value is True:
                last = max(
                    (*node.bases, *(one.value for one in node.keywords)),
                    key=lambda one: (one.end_lineno, one.end_col_offset),
                )
                end = file.at(last.end_lineno or 0, last.end_col_offset or 0)
                self.edits[file].add((end, end, f', tag="{node.name}"'))
            break

    def _has_heirs(self, file: File, node: ast.ClassDef) -> bool:
        return any(
            other is not node and any(base is node for _, base in self.tree.bases(each, other))
            for each in self.tree.rota.values()
            for other in each.classes.values()
        )

    def _exports(self, file: File, value: ast.expr) -> None:
        for each in ast.walk(value):
            match each:
                case ast.Constant(value=str(name)):
                    if new := self._local(file, file.top, name):
                        self.edit(file, file.at(each.lineno, each.col_offset) + 1, name, new)

    def _call(self, file: File, node: ast.Call) -> None:
        scope = file.scopes[node]
        for one, two in zip(node.args, node.args[1:], strict=False):  # setattr(module, "Name", …)
            match two, self.tree.of(file, one, scope):
                case ast.Constant(value=str(name)), str(module):
                    meaning = self.tree.attribute(module, name)
                    if isinstance(meaning, tuple) and meaning in self.new and meaning[1] == name:
                        self.edit(file, file.at(two.lineno, two.col_offset) + 1, name, self.new[meaning])
        match node.func:
            case ast.Name(id="cast" | "TypeVar") | ast.Attribute(attr="cast"):
                for each in (*node.args[:1], *(one.value for one in node.keywords)):
                    if not (isinstance(node.func, ast.Name) and node.func.id == "TypeVar" and each in node.args):
                        self._quoted(file, each)

    def _quoted(self, file: File, node: ast.expr) -> None:
        """Names in annotations that are written as strings."""
        if isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith("Literal"):
            return
        if not isinstance(node, ast.Constant):
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    self._quoted(file, child)
            return
        if not isinstance(node.value, str) or node.lineno != node.end_lineno:
            return
        try:
            parsed = ast.parse(node.value, mode="eval")
        except SyntaxError:
            return
        shift = file.at(node.lineno, node.col_offset) + 1 - file.at(1, 0)
        for each in ast.walk(parsed):
            if isinstance(each, ast.Name | ast.Attribute):
                self._use(file, each, file.scopes.get(node, file.top), shift)

    # Mentions

    def _mentions(self, file: File) -> None:
        """Comments, texts below definitions, and dotted names in any string."""
        texts = [
            node.value
            for node in ast.walk(file.tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        ]
        spans = [
            (file.at(each.lineno, each.col_offset), file.at(each.end_lineno or 0, each.end_col_offset or 0))
            for each in texts
        ]
        for token in tokenize.generate_tokens(io.StringIO(file.source).readline):
            if token.type == tokenize.COMMENT:
                start = file.starts[token.start[0] - 1] + len(token.line[: token.start[1]].encode())
                spans.append((start, start + len(token.string.encode())))
        for start, end in spans:
            text = file.source.encode()[start:end].decode()
            for at, old, new in self.in_text(text, file):
                self.edit(file, start + len(text[:at].encode()), old, new)
        for node in ast.walk(file.tree):
            match node:
                case ast.Constant(value=str(text)) if node not in texts and text.startswith("rota."):
                    if found := DOTTED.fullmatch(text):
                        meaning = self.tree.named(found[1], found[2])
                        if isinstance(meaning, tuple) and meaning in self.new and meaning[1] == found[2]:
                            start = file.at(node.lineno, node.col_offset) + 1 + found.start(2)
                            self.edit(file, start, found[2], self.new[meaning])

    def in_text(self, text: str, file: File | None) -> Iterator[tuple[int, str, str]]:
        """Places in a text where renamed classes are mentioned: where, the old name, the new one."""
        for found in DOTTED.finditer(text):
            meaning = self.tree.named(found[1], found[2])
            if file and not isinstance(meaning, tuple):
                base: Meaning = None
                for part in found[1].rstrip(".").split("."):
                    base = (
                        self.tree.attribute(base, part)
                        if isinstance(base, str)
                        else self.tree.meaning(file, file.top, part)
                    )
                meaning = self.tree.attribute(base, found[2]) if isinstance(base, str) else None
            if isinstance(meaning, tuple) and meaning in self.new and meaning[1] == found[2]:
                yield found.start(2), found[2], self.new[meaning]
        for found in TICKED.finditer(text):
            if found[1]:
                continue
            old, new = found[2], None
            if file and old in file.top.names:
                new = self._local(file, file.top, old)
            elif (new := self._of_line(text, found.start(), old)) is None:
                new = self._anywhere(old)
                if new is None and old in self.freed and self.count_after[old] == 0:
                    where = file.path.relative_to(self.tree.root) if file else ""
                    line = _line_at(text, found.start()).strip()
                    self.warnings.append(f"{where}: `{old}` is not the name of a class any more: {line}")
            if new:
                yield found.start(2), old, new

    def _of_line(self, text: str, at: int, old: str) -> str | None:
        """The new name of a class whose module is named in the same line, as in the tables of the manual."""
        for path in PATH.findall(_line_at(text, at)):
            meaning = self.tree.attribute(f"rota.{path.replace('/', '.')}", old)
            if isinstance(meaning, tuple) and meaning in self.new:
                return self.new[meaning]
        return None

    def _anywhere(self, old: str) -> str | None:
        """The new name of a class that has no namesake, now or then."""
        meant = self.tree.classes(old)
        return self.new.get((meant[0], old)) if len(meant) == 1 and old not in self.new.values() else None


def _line_at(text: str, at: int) -> str:
    return text[text.rfind("\n", 0, at) + 1 :].partition("\n")[0]


def _looks_plain(node: ast.Subscript) -> bool:
    """Is what is in brackets text, and no type? So it is of Literal, and of anything that is no name of a type."""
    value = node.value
    name = value.id if isinstance(value, ast.Name) else value.attr if isinstance(value, ast.Attribute) else ""
    return name == "Literal" or not re.match(r"_?[A-Z]|type$|list$|dict$|tuple$|set$|frozenset$", name)


def rewrapped(text: str, before: str, is_code: bool = False) -> str:
    """The text with lines of prose that have become too long wrapped anew, to the end of their paragraphs."""
    as_they_were = set(before.split("\n"))
    lines, done, prose = text.split("\n"), [], _prose(text) if is_code else None
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if (
            len(line) <= WIDTH
            or line in as_they_were
            or line.lstrip().startswith("|")
            or (prose is not None and number not in prose)
        ):
            done.append(line)
            continue
        prefix = (re.match(r"\s*(?:# )?", line) or [""])[0]
        words = line[len(prefix) :]
        hanging = prefix + " " * len((re.match(r"(?:[-*]|\d+\.) |", words) or [""])[0])
        while number < len(lines) and _goes_on(lines[number], hanging, prefix):
            words += " " + lines[number][len(hanging) :]
            number += 1
        is_closed = words.startswith('"""') and words.endswith('"""')
        done += textwrap.wrap(
            words.removesuffix('"""') if is_closed else words,
            WIDTH - 3 * is_closed,
            initial_indent=prefix,
            subsequent_indent=hanging,
            break_long_words=False,
            break_on_hyphens=False,
        )
        done += [f'{prefix}"""'] if is_closed else []
    return "\n".join(done)


def _prose(text: str) -> set[int]:
    """The numbers of lines in code that are comments, or texts below definitions."""
    found = {number for number, line in enumerate(text.split("\n"), 1) if line.lstrip().startswith("# ")}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            found |= set(range(node.lineno, (node.end_lineno or 0) + 1))
    return found


def _goes_on(line: str, hanging: str, prefix: str) -> bool:
    """Does this line belong to the same paragraph?"""
    rest = line[len(hanging) :]
    is_new = re.match(r"[-*] |\d+\. |#|\s|\|", rest) or '"""' in line
    return line.startswith(hanging) and bool(rest) and not is_new and (not prefix.strip() or line.startswith(prefix))


def table(moves: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Module, old name and new name of each class."""
    for line in TABLE.split("\n"):
        if line.strip():
            module, old, new = line.split()
            yield moves.get(f"rota.{module}", f"rota.{module}"), old, new


def located(tree: Tree, moves: Mapping[str, str]) -> tuple[dict[Class, str], list[str]]:
    """The classes of the table as they are in this tree, and what was not found."""
    found: dict[Class, str] = {}
    lost: list[tuple[str, str, str]] = []
    for module, old, new in table(moves):
        if module in tree.rota and old in tree.rota[module].classes:
            found[module, old] = new
        else:
            lost.append((module, old, new))
    warnings = []
    for module, old, new in lost:
        if tree.classes(new):  # renamed already
            continue
        others = [each for each in tree.classes(old) if (each, old) not in found and not KEPT & _last_parts(each, old)]
        package, _, last = module.rpartition(".")
        tries = (
            [each for each in others if each.startswith(module)],
            [each for each in others if each.rpartition(".")[0] == package],
            [each for each in others if each.rpartition(".")[2] == last],
        )
        meant = next((each for each in tries if len(each) == 1), None)
        if meant:
            found[meant[0], old] = new
            warnings.append(f"{module}.{old} was found in {meant[0]}")
        else:
            warnings.append(f"{module}.{old} was not found: {', '.join(others) or 'there is none left'}")
    for (module, old), new in list(found.items()):
        if taken := tree.classes(new):
            warnings.append(f"{module}.{old}: {new} is a class of {', '.join(taken)} already; left as it is")
            del found[module, old]
    return found, warnings


def _last_parts(module: str, name: str) -> set[str]:
    """A class by all the ends of its full name."""
    parts = module.split(".")
    return {".".join([*parts[at:], name]) for at in range(len(parts))}


def rename(moves: Mapping[str, str]) -> None:
    """Rename, and say what needs a look."""
    tree = Tree(ROOT)
    new, warnings = located(tree, moves)
    work = Renaming(tree, new, warnings)
    work.run()
    for path in (
        each for top in TEXT for each in ([ROOT / top] if (ROOT / top).is_file() else (ROOT / top).rglob("*"))
    ):
        if path.suffix in (".md", ".proto"):
            text, before = path.read_text(), len(work.warnings)
            for at, old, name in sorted(set(work.in_text(text, None)), reverse=True):
                text = text[:at] + name + text[at + len(old) :]
            for name, old, said in MENTIONS:
                if path == ROOT / name:
                    text = text.replace(old, said)
            path.write_text(rewrapped(text, path.read_text()) if path.suffix == ".md" else text)
            named = [f"{path.relative_to(ROOT)}{each}" for each in work.warnings[before:]]
            work.warnings[before:] = named
    ruff = str(Path(sys.executable).with_name("ruff"))
    for command in (("check", "--select", "I,RUF022", "--fix"), ("format",)):
        subprocess.run([ruff, *command, "--quiet", *CODE], cwd=ROOT, check=False)
    for file in work.edits:
        text = file.path.read_text()
        if any(len(line) > WIDTH for line in text.splitlines()):
            file.path.write_text(rewrapped(text, file.source, is_code=True))
    sys.stdout.write("".join(f"{each}\n" for each in work.warnings))
    sys.stdout.write(f"{len(new)} classes renamed, {len(work.edits)} files of code changed\n")


def twice() -> None:
    """Class names that are used more than once, as `make show-house` counts them."""
    found = defaultdict(list)
    for module, file in Tree(ROOT).rota.items():
        for node in ast.walk(file.tree):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(module)
    many = {name: modules for name, modules in sorted(found.items()) if len(modules) > 1}
    sys.stdout.write("".join(f"{name}: {', '.join(modules)}\n" for name, modules in many.items()))
    sys.stdout.write(f"{len(many)} of {len(found)}\n")


def wire() -> None:
    """What bytes and descriptions follow from classes: layouts with their tags, and the OpenAPI description."""
    import msgspec  # noqa: PLC0415

    import rota  # noqa: PLC0415

    for each in pkgutil.walk_packages(rota.__path__, "rota."):
        if not each.name.endswith("__main__"):
            importlib.import_module(each.name)
    kinds, layouts = [msgspec.Struct], []
    while kinds:
        for kind in kinds.pop().__subclasses__():
            kinds.append(kind)
            if kind.__module__.split(".")[0] == "rota":
                config = kind.__struct_config__
                tag = "is the name" if config.tag == kind.__name__ and kind.__subclasses__() else config.tag
                layouts.append(json.dumps([config.tag_field, tag, config.array_like, *kind.__struct_encode_fields__]))
    openapi, codec = (
        next(module for name, module in sys.modules.items() if re.fullmatch(rf"rota\..*\b{last}", name))
        for last in ("openapi", "codec")
    )
    records = sorted(kind.__name__ for kind in getattr(codec, "VERSIONS", getattr(codec, "_versions", ())))
    parts = {"layouts": sorted(layouts), "records": records, "schemas": openapi.describe(())}
    for name, part in parts.items():
        digest = hashlib.sha256(json.dumps(part, sort_keys=True).encode()).hexdigest()[:16]
        sys.stdout.write(f"{name}: {len(part)} {digest}\n")


def main() -> None:
    said = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    said.add_argument("--moves", type=Path, help="a file with lines of old and new names of modules")
    said.add_argument("--twice", action="store_true", help="only list class names that are used more than once")
    said.add_argument("--wire", action="store_true", help="only show digests of what classes mean in bytes")
    given = said.parse_args()
    if given.twice:
        twice()
        return
    if given.wire:
        wire()
        return
    rename(dict(moved(given.moves.read_text())) if given.moves else {})


def moved(text: str) -> Iterator[tuple[str, str]]:
    """Old and new names of modules, from lines of `old.module new.module` or `new.package: old.module[=new_name] …`."""
    for line in text.splitlines():
        package, colon, rest = line.partition("#")[0].partition(":")
        if not colon:
            words = package.split()
            if len(words) == 2:
                yield words[0], words[1]
            continue
        for each in rest.split():
            old, is_named, name = each.partition("=")
            if not old:
                yield f"rota.{name}", f"rota.{package.strip()}"
            else:
                yield f"rota.{old}", f"rota.{package.strip()}.{name if is_named else old.rpartition('.')[2]}"


if __name__ == "__main__":
    main()
