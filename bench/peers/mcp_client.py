"""Calls `echo` of a server with the official Python client and prints the median time in microseconds.

Usage: mcp_client.py SCRIPT WARMING CALLS
"""

import asyncio
import statistics
import sys
import time

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


async def main(script, warming, calls):
    server = StdioServerParameters(command="node", args=[script])
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        times = []
        for number in range(warming + calls):
            begun = time.perf_counter()
            await session.call_tool("echo", {"message": "x"})
            if number >= warming:
                times.append((time.perf_counter() - begun) * 1e6)
                # Pause as in bench/src/mcp.rs, so that the server is idle again before the next call.
                time.sleep(0.001)
        print(statistics.median(times))


asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
