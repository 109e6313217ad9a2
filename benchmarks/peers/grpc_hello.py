"""grpc.aio: `serve PORT` echoes bytes; `ask PORT CALLS SECONDS` keeps so many calls in flight and prints its figures.

There is no gRPC in our load generator, so the caller is Python too: what comes out is the rate of the pair.
"""

import asyncio
import json
import sys
from time import perf_counter

import grpc

METHOD = "/hello.Hello/Echo"
BODY = b"x" * 100
CHANNELS = 4


async def serve(port: int) -> None:
    """Answer until killed."""

    async def echo(request: bytes, context: object) -> bytes:
        return request

    server = grpc.aio.server()
    handlers = {"Echo": grpc.unary_unary_rpc_method_handler(echo)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("hello.Hello", handlers),))
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await server.wait_for_termination()


async def ask(port: int, calls: int, seconds: float) -> dict[str, float]:
    """Calls a second, and their latencies in µs."""
    latencies: list[float] = []
    channels = [
        grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.use_local_subchannel_pool", 1)])
        for _ in range(min(CHANNELS, calls))
    ]
    echoes = [channel.unary_unary(METHOD) for channel in channels]
    await echoes[0](BODY, wait_for_ready=True)
    start = perf_counter()

    async def caller(number: int) -> None:
        echo = echoes[number % len(echoes)]
        while (before := perf_counter()) < start + seconds:
            await echo(BODY, wait_for_ready=True)
            latencies.append(perf_counter() - before)

    await asyncio.gather(*(caller(number) for number in range(calls)))
    spent = perf_counter() - start
    for channel in channels:
        await channel.close()
    latencies.sort()
    return {
        "per_second": len(latencies) / spent,
        "answered": len(latencies),
        "p50_us": latencies[len(latencies) // 2] * 1e6,
        "p99_us": latencies[len(latencies) * 99 // 100] * 1e6,
    }


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        asyncio.run(serve(int(sys.argv[2])))
    else:
        print(json.dumps(asyncio.run(ask(int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])))))
