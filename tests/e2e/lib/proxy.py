# SPDX-License-Identifier: Apache-2.0
"""A proxy in front of the API server that injects faults by rules. usage: proxy.py PORT DIRECTORY

DIRECTORY holds server, server.crt, server.key, ca.crt of the cluster, and rules.json: a list of rules, read again at each
request. The first rule applies whose "match" (a regular expression on "METHOD PATH") is found, and whose "times" are not used
up:
  {"answer": STATUS, "headers": {…}, "body": "…"}   returns this answer; the connection stays open
  {"error": CODE, "reason": "…"}                    returns a stream of one ERROR event, in the encoding of the Accept header
  {"hold": SECONDS}                                 waits that long, then relays the request
  {"cut": BYTES}                                    resets the connection after so many bytes of the body
  {"silent": BYTES}                                 sends no more after so many bytes of the body; the connection stays open
  {"drip": BYTES}                                   sends so many bytes at a time
  {"record": NAME}                                  relays the request, and records the answer
  {"replay": NAME}                                  sends the recorded answer, then nothing
Without a rule requests and answers pass unchanged, one request per connection. A line for each request goes to standard
output: time, rule or "-", request. Rules also apply to open streams. {"match": …, "now": "cut"} resets them, {"now": "silent"}
makes them silent. While the rules contain {"now": "gather"}, the proxy holds the data of matching streams; afterwards it sends all
of it at once, as fast as the socket accepts it, and prints a line with the number of bytes. With "repeat": COUNT it sends the data
so many times, for which the data must begin and end between two events. Meanwhile DIRECTORY/gathered has the number of bytes so
far. DIRECTORY/oldest has the arrival time of the oldest open request, as seconds since 1970, or "none"."""

import asyncio
import json
import pathlib
import re
import ssl
import struct
import sys
import time
import urllib.parse

POLL = 0.05  # seconds between reads of the rules while a stream is silent


def field(number, data):
    """A length-delimited field of a protobuf message."""
    def varint(value):
        out = b""
        while value > 127:
            out += bytes([value & 127 | 128])
            value >>= 7
        return out + bytes([value])
    return varint(number << 3 | 2) + varint(len(data)) + data


def error_event(accept, code, reason):
    """One framed watch event of type ERROR, and its content type."""
    if not accept.startswith("application/vnd.kubernetes.protobuf"):
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": reason, "code": code}
        return (json.dumps({"type": "ERROR", "object": status}) + "\n").encode(), "application/json"
    number, left = b"\x30", code  # metav1.Status.code = 6, a varint
    while left > 127:
        number += bytes([left & 127 | 128])
        left >>= 7
    status = field(2, b"Failure") + field(3, reason.encode()) + field(4, reason.encode()) + number + bytes([left])
    unknown = b"k8s\0" + field(1, field(1, b"v1") + field(2, b"Status")) + field(2, status)
    event = field(1, b"ERROR") + field(2, field(1, unknown))
    return struct.pack(">I", len(event)) + event, "application/vnd.kubernetes.protobuf;stream=watch"


class Proxy:
    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        address = urllib.parse.urlsplit((self.directory / "server").read_text().strip())
        self.host, self.port = address.hostname, address.port
        self.upstream = ssl.create_default_context(cafile=str(self.directory / "ca.crt"))
        self.used = {}
        self.recorded = {}
        self.open_requests = []  # their arrival times, the oldest first
        self.write_file("oldest", "none")

    def rules(self):
        try:
            return json.loads((self.directory / "rules.json").read_text())
        except ValueError:
            return []  # incompletely written; it is read again

    def rule(self, request):
        """The rule for a new request; counts its use."""
        for rule in self.rules():
            if "now" in rule or not re.search(rule["match"], request):
                continue
            name = json.dumps(rule, sort_keys=True)
            if "times" in rule and self.used.get(name, 0) >= rule["times"]:
                continue
            self.used[name] = self.used.get(name, 0) + 1
            return rule
        return {}

    def write_file(self, name, text):
        """Replaces the file atomically."""
        (self.directory / f"{name}.new").write_text(f"{text}\n")
        (self.directory / f"{name}.new").rename(self.directory / name)

    def write_oldest(self):
        self.write_file("oldest", f"{self.open_requests[0]:.3f}" if self.open_requests else "none")

    def now(self, request):
        """The rule that now applies to an open stream; an empty one if none does."""
        return next((rule for rule in self.rules() if "now" in rule and re.search(rule["match"], request)), {"now": None})

    async def serve(self, reader, writer):
        try:
            while await self.one(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError, ssl.SSLError):
            pass
        finally:
            writer.close()

    async def one(self, reader, writer):
        """Handles one request; returns whether another may follow on this connection."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        line, *headers = head.split("\r\n")
        request = line.rsplit(" ", 1)[0]
        accept = next((each.split(":", 1)[1].strip() for each in headers if each.lower().startswith("accept:")), "")
        rule = self.rule(request)
        action = next((key for key in rule if key not in ("match", "times", "headers", "body", "reason")), "-")
        print(f"{time.time():.3f} {action} {request}", flush=True)
        if action == "answer":
            await self.answer(writer, rule)
            return True
        if action == "error":
            await self.error(writer, rule, accept)
            return False
        if action == "replay":
            await self.replay(reader, writer, rule["replay"])
            return False
        if action == "hold":
            await asyncio.sleep(rule["hold"])
        await self.relay(head, request, reader, writer, rule)
        return False

    async def answer(self, writer, rule):
        body = rule.get("body", "").encode()
        headers = {"Content-Type": "application/json", "Content-Length": str(len(body))} | rule.get("headers", {})
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"HTTP/1.1 {rule['answer']} Made\r\n{lines}\r\n".encode() + body)
        await writer.drain()

    async def error(self, writer, rule, accept):
        body, kind = error_event(accept, rule["error"], rule.get("reason", ""))
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
        await writer.drain()

    async def replay(self, reader, writer, name):
        writer.write(bytes(self.recorded.get(name, b"")))
        await writer.drain()
        await reader.read()  # until the client closes the connection

    async def relay(self, head, request, reader, writer, rule):
        arrived = time.time()
        self.open_requests.append(arrived)
        self.write_oldest()
        try:
            await self.relay_one(head, request, reader, writer, rule)
        finally:
            self.open_requests.remove(arrived)
            self.write_oldest()

    async def relay_one(self, head, request, reader, writer, rule):
        upstream, sink = await asyncio.open_connection(self.host, self.port, ssl=self.upstream)
        try:
            lines = [line for line in head.split("\r\n") if line and not line.lower().startswith("connection:")]
            sink.write(("\r\n".join(lines) + "\r\nConnection: close\r\n\r\n").encode())
            length = next((line.split(":", 1)[1] for line in lines if line.lower().startswith("content-length:")), "0")
            sink.write(await reader.readexactly(int(length)))  # the body, for example an Event
            answer = await upstream.readuntil(b"\r\n\r\n")
            record = self.recorded.setdefault(rule["record"], bytearray()) if "record" in rule else None
            if record is not None:
                record.clear()
                record += answer
            writer.write(answer)
            await self.body(request, upstream, reader, writer, rule, record)
        finally:
            sink.close()

    async def body(self, request, upstream, reader, writer, rule, record):
        limit = rule.get("cut", rule.get("silent"))
        sent = 0
        gathered = bytearray()
        ended = False  # the server has ended the stream while its data is gathered
        gathering = False
        repeat = 1
        pending = asyncio.ensure_future(upstream.read(65536))
        client_gone = asyncio.ensure_future(reader.read(1))
        try:
            while True:
                await asyncio.wait({pending, client_gone}, timeout=POLL, return_when=asyncio.FIRST_COMPLETED)
                open_rule = self.now(request)
                now = open_rule["now"]
                if client_gone.done():
                    return
                if now == "gather" and not gathering:
                    print(f"{time.time():.3f} gathering {request}", flush=True)
                gathering = now == "gather"
                repeat = open_rule.get("repeat", 1) if gathering else repeat
                if now == "silent":
                    await client_gone
                    return
                if now == "cut":
                    writer.transport.abort()
                    return
                if gathered and now != "gather":
                    print(f"{time.time():.3f} burst {request} {len(gathered) * repeat}", flush=True)
                    for _ in range(repeat):
                        await self.send(writer, bytes(gathered), None)
                    gathered.clear()
                if not pending.done():
                    continue
                data = pending.result()
                if not data and gathered:
                    if not ended:
                        print(f"{time.time():.3f} ended {request} {len(gathered)}", flush=True)
                    ended = True
                    await asyncio.sleep(POLL)  # the server has ended the stream; the gathered data is sent later
                    continue
                if not data:
                    return
                if now == "gather":
                    gathered += data
                    self.write_file("gathered", len(gathered))
                    pending = asyncio.ensure_future(upstream.read(65536))
                    continue
                if record is not None:
                    record += data
                if limit is not None:
                    data = data[:limit - sent]
                await self.send(writer, data, rule.get("drip"))
                sent += len(data)
                if sent == limit:
                    if "cut" in rule:
                        writer.transport.abort()
                    else:
                        await client_gone
                    return
                pending = asyncio.ensure_future(upstream.read(65536))
        finally:
            pending.cancel()
            client_gone.cancel()

    async def send(self, writer, data, drip):
        for at in range(0, len(data), drip or len(data) or 1):
            writer.write(data[at:at + (drip or len(data))])
            await writer.drain()
            if drip:
                await asyncio.sleep(0)  # so that each piece is a TLS record, and a read, of its own


async def main():
    port, directory = int(sys.argv[1]), sys.argv[2]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{directory}/server.crt", f"{directory}/server.key")
    proxy = Proxy(directory)
    server = await asyncio.start_server(proxy.serve, None, port, ssl=context, limit=1 << 20)
    async with server:
        await server.serve_forever()


asyncio.run(main())
