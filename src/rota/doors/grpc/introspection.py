"""The services of gRPC's own tools: health (grpc.health.v1) and reflection.

Both are small, so they are implemented here and need no further library. Reflection is served as v1 and as v1alpha,
which differ only in their name; it lists the public services, not the node link at the same port.

The price of a health watch: the checks run once a second, as they do not signal a change.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from datetime import timedelta
from typing import Any, TypeAlias

import grpc
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import FileDescriptor, ServiceDescriptor

from rota.doors.grpc.pb import health_pb2, reflection_pb2
from rota.doors.grpc.refusals import Context, guarded, read, send, write
from rota.doors.health import HealthChecks
from rota.model.errors import NotFound, Unavailable

HEALTH = health_pb2.DESCRIPTOR.services_by_name["Health"]
REFLECTION = reflection_pb2.DESCRIPTOR.services_by_name["ServerReflection"]
OLDER_REFLECTION = "grpc.reflection.v1alpha.ServerReflection"
"""The name that older tools use."""

WATCHED = timedelta(seconds=1)
"""How often a health watch runs the checks."""

Verdict = health_pb2.HealthCheckResponse
Methods: TypeAlias = "dict[str, grpc.RpcMethodHandler[Any, Any]]"


def handlers(
    offered: Iterable[ServiceDescriptor], health: HealthChecks, stopping: asyncio.Event
) -> list[grpc.GenericRpcHandler]:
    """Health and reflection of the services offered, and of themselves. `stopping` ends the streams."""
    services = {each.full_name: each for each in (*offered, HEALTH, REFLECTION)}
    catalogue = DescriptorCatalogue(services.values())

    def judge(service: str) -> "Verdict.ServingStatus":
        if service and service not in services:
            return Verdict.SERVICE_UNKNOWN
        return Verdict.SERVING if health.ready().is_well else Verdict.NOT_SERVING

    async def check(content: bytes, context: Context) -> bytes:
        return await guarded(context, _check(judge, content))

    async def watch(content: bytes, context: Context) -> None:
        await guarded(context, _unless(stopping, _watch(judge, content, context)))

    async def reflect(_: object, context: Context) -> None:
        await guarded(context, _unless(stopping, _reflect(catalogue, context)))

    methods: Methods = {"ServerReflectionInfo": grpc.stream_stream_rpc_method_handler(reflect)}
    asked: Methods = {
        "Check": grpc.unary_unary_rpc_method_handler(check),
        "Watch": grpc.unary_stream_rpc_method_handler(watch),
    }
    return [
        grpc.method_handlers_generic_handler(HEALTH.full_name, asked),
        grpc.method_handlers_generic_handler(REFLECTION.full_name, methods),
        grpc.method_handlers_generic_handler(OLDER_REFLECTION, methods),
    ]


class DescriptorCatalogue:
    """Services, and the files that describe them."""

    def __init__(self, services: Iterable[ServiceDescriptor]) -> None:
        self._services = sorted(services, key=lambda each: each.full_name)
        self._files: dict[str, FileDescriptor] = {}
        for service in self._services:
            self._files |= {file.name: file for file in _with_imports(service.file)}

    def answer(self, request: reflection_pb2.ServerReflectionRequest) -> reflection_pb2.ServerReflectionResponse:
        """The answer to a reflection request; an error is an answer too, and the stream goes on."""
        answer = reflection_pb2.ServerReflectionResponse(valid_host=request.host, original_request=request)
        match request.WhichOneof("message_request"):
            case "list_services":
                names = [reflection_pb2.ServiceResponse(name=each.full_name) for each in self._services]
                answer.list_services_response.service.extend(names)
            case "file_by_filename":
                self._add_files(answer, self._files.get(request.file_by_filename), request.file_by_filename)
            case "file_containing_symbol":
                self._add_files(
                    answer, self._containing(request.file_containing_symbol), request.file_containing_symbol
                )
            case "file_containing_extension" | "all_extension_numbers_of_type":
                _fail(answer, grpc.StatusCode.NOT_FOUND, "there are no extensions here")
            case _:
                _fail(
                    answer, grpc.StatusCode.UNIMPLEMENTED, "this is not known here; ask for services, symbols or files"
                )
        return answer

    def _containing(self, symbol: str) -> FileDescriptor | None:
        pool = descriptor_pool.Default()
        with suppress(KeyError):
            return self._files.get(pool.FindFileContainingSymbol(symbol).name)
        with suppress(KeyError):  # methods are not among the pool's symbols
            return self._files.get(pool.FindMethodByName(symbol).containing_service.file.name)
        return None

    def _add_files(
        self, answer: reflection_pb2.ServerReflectionResponse, file: FileDescriptor | None, asked: str
    ) -> None:
        """Answer with the file and those it imports, so that the client need not request each."""
        if file is None:
            _fail(answer, grpc.StatusCode.NOT_FOUND, f"{asked[:200]} is not known here; list the services")
            return
        contents = [each.serialized_pb for each in _with_imports(file)]
        answer.file_descriptor_response.file_descriptor_proto.extend(contents)


def _with_imports(file: FileDescriptor) -> list[FileDescriptor]:
    """A file and all it imports, itself first."""
    found = {file.name: file}
    for imported in file.dependencies:
        found |= {each.name: each for each in _with_imports(imported)}
    return list(found.values())


def _fail(answer: reflection_pb2.ServerReflectionResponse, code: grpc.StatusCode, sentence: str) -> None:
    answer.error_response.error_code = code.value[0]
    answer.error_response.error_message = sentence


async def _check(judge: Callable[[str], "Verdict.ServingStatus"], content: bytes) -> bytes:
    service = read(health_pb2.HealthCheckRequest, content).service
    status = judge(service)
    if status == Verdict.SERVICE_UNKNOWN:
        raise NotFound(f"there is no service {service[:200]} here; list the services by reflection")
    return write(Verdict(status=status))


async def _watch(judge: Callable[[str], "Verdict.ServingStatus"], content: bytes, context: Context) -> None:
    """Send the verdict, and each change of it, until the client disconnects."""
    service = read(health_pb2.HealthCheckRequest, content).service
    last: Verdict.ServingStatus | None = None
    while True:
        if (status := judge(service)) != last:
            await send(context, Verdict(status=status))
            last = status
        await asyncio.sleep(WATCHED.total_seconds())


async def _reflect(catalogue: DescriptorCatalogue, context: Context) -> None:
    while isinstance(content := await context.read(), bytes):
        await send(context, catalogue.answer(read(reflection_pb2.ServerReflectionRequest, content)))


async def _unless(stopping: asyncio.Event, work: Awaitable[None]) -> None:
    """Run the work of a stream; raises Unavailable when the door closes first, so that closing need not wait for it."""
    working, stopped = asyncio.ensure_future(work), asyncio.ensure_future(stopping.wait())
    try:
        await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise Unavailable("this node is stopping; ask another, or again later", code="stopping")
        working.result()
    finally:
        working.cancel()
        stopped.cancel()
        await asyncio.wait({working, stopped})
