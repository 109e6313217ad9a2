"""The proxy: a process that serves the sockets of services and hands requests to idle workers.

It has none of the user's code, no event loop of asyncio's and no thread: a loop of its own over the sockets, because
nearly all of its time goes into system calls, and each one that is saved counts. `clients`, `seats` and `doors` are the
sockets, `front` puts them around one service's dispatch, `main` is the process.
"""
