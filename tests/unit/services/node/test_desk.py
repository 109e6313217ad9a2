"""A worker's way through its requests: hooks in order, and one reply whatever the handler does."""

import asyncio
import gc
import sys
from datetime import timedelta
from inspect import iscoroutinefunction

import pytest

from rota.kit.time import virtual
from rota.services.core.codes import Ret
from rota.services.core.context import Reply
from rota.services.core.handlers import Handler, Hooks
from rota.services.core.spec import HandlerSpec
from rota.services.node.desk import RequestRunner
from rota.stage.staged import StagedClient


def handler(function, timeout=None, hooks=None):
    spec = HandlerSpec(cmd=1, group=1, timeout=timeout, idempotent=False, is_async=iscoroutinefunction(function))
    return Handler(spec, function, hooks or Hooks())


class Asked:
    """Requests at one desk, their replies, and what was reported."""

    def __init__(self, handlers, hooks=None, **options):
        self.client, self.errors = StagedClient(), []
        self.replies = self.client.replies
        self.desk = RequestRunner(
            "logic",
            handlers,
            hooks or Hooks(),
            report=lambda where, error: self.errors.append((where, error)),
            **options,
        )

    def ask(self, cmd=1, body=b""):
        asked = self.desk.request(cmd, 1, body, 1, self.client)
        virtual.run(self.desk.answer(asked))
        return asked

    def ask_at_once(self, cmd=1):
        return self.desk.answer_at_once(self.desk.request(cmd, 1, b"", 1, self.client))


def ask(function, timeout=None, **options):
    asked = Asked({1: handler(function, timeout)}, **options)
    asked.ask()
    return asked


def test_hooks_run_in_their_order():
    story = []

    def note(word):
        return lambda *_: story.append(word)

    async def note_late(*_):
        await asyncio.sleep(1)
        story.append("before late")

    hooks = Hooks(
        start_worker=[note("start")],
        open_conn=[note("open")],
        before_first_request=[note("first")],
        before_request=[note("before"), note_late],
        after_request=[note("after")],
        before_response=[note("response")],
        after_response=[note("responded")],
        close_conn=[note("close")],
        stop_worker=[note("stop")],
    )
    own = Hooks(before_request=[note("own before")], after_request=[note("own after")])
    asked = Asked({1: handler(lambda _: story.append("handler") or b"", hooks=own)}, hooks)
    virtual.run(asked.desk.start())
    asked.ask()
    asked.ask()
    virtual.run(asked.desk.stop())
    around = ["before", "before late", "own before", "handler", "own after", "after", "response", "responded"]
    assert story == ["start", "open", "first", *around, *around, "close", "stop"]


async def slow(_):
    await asyncio.sleep(5)
    return b"late"


async def own_timeout(_):
    raise TimeoutError("mine")


def leave(_):
    sys.exit(3)


def fail(_):
    raise ValueError("no")


@pytest.mark.parametrize(
    ("function", "timeout", "replies", "error"),
    [
        pytest.param(lambda _: b"a", None, [Reply(b"a")], None, id="bytes"),
        pytest.param(lambda _: None, None, [], None, id="silence, on purpose"),
        pytest.param(slow, None, [Reply(b"late")], None, id="async"),
        pytest.param(slow, timedelta(seconds=2), [Reply(ret=-10005)], TimeoutError, id="too late"),
        pytest.param(own_timeout, timedelta(seconds=2), [Reply(ret=-10001)], TimeoutError, id="its own time-out"),
        pytest.param(fail, None, [Reply(ret=-10001)], ValueError, id="an error"),
        pytest.param(leave, None, [Reply(ret=-10001)], SystemExit, id="an exit"),
        pytest.param(lambda _: 3, None, [Reply(ret=-10001)], Exception, id="nonsense"),
    ],
)
def test_one_reply_whatever_the_handler_does(function, timeout, replies, error):
    asked = ask(function, timeout)
    assert asked.replies == replies
    assert [isinstance(found, error) for _, found in asked.errors] == ([True] if error else [])


def test_the_services_time_out_is_for_handlers_without_one():
    assert ask(slow, timeout=None).replies == [Reply(b"late")]
    asked = Asked({1: handler(slow)}, timeout=timedelta(seconds=1))
    asked.ask()
    assert asked.replies == [Reply(ret=Ret.DEADLINE)]


def test_an_unknown_cmd():
    asked = Asked({})
    asked.ask(cmd=9)
    assert asked.replies == [Reply(ret=-10000)]


@pytest.mark.parametrize("cmd", [1, 9])
def test_failures_without_an_answer(cmd):
    asked = Asked({1: handler(fail)}, answers_failures=False)
    asked.ask(cmd=cmd)
    assert asked.replies == []


def test_an_interrupted_request_does_not_reach_its_handler():
    ran = []
    hooks = Hooks(before_request=[lambda request: request.interrupt({"ret": -1})])
    asked = Asked({1: handler(ran.append)}, hooks)
    asked.ask()
    assert asked.replies == [Reply(ret=-1)]
    assert ran == []


def test_a_failed_check_before_a_request_keeps_the_handler_from_running():
    ran = []
    asked = Asked({1: handler(ran.append)}, Hooks(before_request=[fail]))
    asked.ask()
    assert (asked.replies, ran) == ([Reply(ret=-10001)], [])
    assert asked.errors[0][0] == 'service "logic": before_request'


@pytest.mark.parametrize("hook", ["before_first_request", "after_request", "before_response", "after_response"])
def test_errors_of_other_hooks_are_reported_and_passed_over(hook):
    def broken(*_):
        raise ValueError("no")

    asked = Asked({1: handler(lambda _: b"a")}, Hooks(**{hook: [broken]}))
    asked.ask()
    assert asked.replies == [Reply(b"a")]
    assert [where for where, _ in asked.errors] == [f'service "logic": {hook}']


def test_after_request_is_told_what_went_wrong():
    told = []
    asked = Asked({1: handler(fail)}, Hooks(after_request=[lambda _, error: told.append(str(error))]))
    asked.ask()
    assert told == ["no"]


def test_what_was_written_early_is_the_answer():
    def early(request):
        assert request.write(b"now")
        return b"later"

    assert ask(early).replies == [Reply(b"now")]


def test_an_error_after_the_answer_changes_nothing():
    def early(request):
        request.write(b"now")
        raise ValueError("no")

    assert ask(early).replies == [Reply(b"now")]


def test_without_a_reporter_errors_are_logged(caplog):
    desk = RequestRunner("logic", {1: handler(fail)}, Hooks())
    asked = desk.request(1, 1, b"", 1, StagedClient())
    virtual.run(desk.answer(asked))
    assert [record.where for record in caplog.records] == ['service "logic": cmd 1']
    assert caplog.records[0].exc_info is not None


def test_a_cancelled_request_is_no_error_of_its_handler():
    asked = Asked({1: handler(slow)})
    made = asked.desk.request(1, 1, b"", 1, asked.client)

    async def cancel():
        task = asyncio.create_task(asked.desk.answer(made))
        await asyncio.sleep(1)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        virtual.run(cancel())
    assert (asked.replies, asked.errors) == ([], [])


@pytest.mark.parametrize("error", [KeyboardInterrupt, asyncio.CancelledError, SystemExit])
def test_whatever_a_function_raises_costs_an_answer_and_no_worker(error):
    def broken(*_):
        raise error

    assert ask(broken).replies == [Reply(ret=-10001)]
    asked = Asked({1: handler(lambda _: b"a")}, Hooks(after_request=[broken], before_response=[broken]))
    asked.ask()
    assert asked.replies == [Reply(b"a")]


def coroutine(_):
    async def answer():
        return b"a"

    return answer()


def hands_on(request):
    return slow(request)


@pytest.mark.parametrize(
    ("function", "replies", "error"),
    [
        pytest.param(lambda _: b"a", [Reply(b"a")], None, id="bytes"),
        pytest.param(lambda _: {"ret": 3}, [Reply(ret=3)], None, id="a dict"),
        pytest.param(lambda _: None, [], None, id="silence, on purpose"),
        pytest.param(coroutine, [Reply(b"a")], None, id="a coroutine that need not wait"),
        pytest.param(hands_on, [Reply(ret=-10001)], Exception, id="a coroutine that waits"),
        pytest.param(fail, [Reply(ret=-10001)], ValueError, id="an error"),
        pytest.param(leave, [Reply(ret=-10001)], SystemExit, id="an exit"),
        pytest.param(lambda _: 3, [Reply(ret=-10001)], Exception, id="nonsense"),
        pytest.param(lambda _: {"no": 1}, [Reply(ret=-10001)], Exception, id="a field that is not in the header"),
    ],
)
def test_a_plain_handler_without_hooks_is_answered_at_once(function, replies, error):
    asked = Asked({1: handler(function)})
    assert asked.ask_at_once()
    assert asked.replies == replies
    assert [(where, isinstance(found, error)) for where, found in asked.errors] == (
        [('service "logic": cmd 1', True)] if error else []
    )


@pytest.mark.parametrize(
    ("own", "hooks"),
    [
        pytest.param(Hooks(before_request=[print]), Hooks(), id="its routes have a hook before it"),
        pytest.param(Hooks(after_request=[print]), Hooks(), id="its routes have a hook after it"),
        pytest.param(Hooks(), Hooks(before_request=[print]), id="the service has a hook before it"),
        pytest.param(Hooks(), Hooks(after_request=[print]), id="the service has a hook after it"),
        pytest.param(Hooks(), Hooks(before_first_request=[print]), id="it is the first, and there is a hook for that"),
    ],
)
def test_what_has_hooks_is_not_answered_at_once(own, hooks):
    asked = Asked({1: handler(lambda _: b"a", hooks=own)}, hooks)
    assert not asked.ask_at_once()
    assert asked.replies == []


def test_neither_async_handlers_nor_unknown_cmds_are_answered_at_once():
    asked = Asked({1: handler(slow)})
    assert not asked.ask_at_once()
    assert not asked.ask_at_once(cmd=9)
    assert asked.replies == []


def test_after_the_first_request_its_hook_is_no_hindrance():
    asked = Asked({1: handler(lambda _: b"a")}, Hooks(before_first_request=[lambda _: None]))
    asked.ask()
    assert asked.ask_at_once()
    assert asked.replies == [Reply(b"a")] * 2


def test_an_answer_at_once_has_the_hooks_around_answers():
    story = []
    hooks = Hooks(
        before_response=[lambda *_: story.append("before")], after_response=[lambda *_: story.append("after")]
    )
    asked = Asked({1: handler(lambda _: b"a")}, hooks)
    assert asked.ask_at_once()
    assert story == ["before", "after"]


def test_requests_leave_no_garbage_for_the_collector():
    asked = Asked({1: handler(lambda _: b"a")}, Hooks(before_response=[lambda *_: None]))
    asked.ask_at_once()
    gc.collect()
    gc.disable()
    try:
        for _ in range(10):
            asked.ask_at_once()
        assert gc.collect() == 0
    finally:
        gc.enable()
