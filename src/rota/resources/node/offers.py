"""What a worker gives each of its resource tasks, and how it notices that one is silent."""

from rota.kit.time.clock import SYSTEM
from rota.model.ids import NodeId
from rota.relay.node.messages import WayOut
from rota.resources.node.run_task import Life, Save, TaskEnvironment, limits
from rota.resources.pipe import TaskSilent
from rota.runtime.pipes.brief import Brief
from rota.sdk.app import App


def offer_of(brief: Brief, life: Life, save: Save, way_out: WayOut) -> TaskEnvironment:
    """What a task of this worker gets."""
    return TaskEnvironment(
        life=life, save=save, way_out=way_out, node=NodeId(brief.node), sink=brief.emitting.sink, clock=SYSTEM
    )


def silence_of(app: App, task: str, epoch: int, life: Life) -> TaskSilent | None:
    """The report that a task is silent; None if it is not."""
    kind = app.resources.get(task.partition("/")[0])
    why = "" if kind is None else life.complaint(*limits(kind))
    return TaskSilent(task, epoch, why) if why else None
