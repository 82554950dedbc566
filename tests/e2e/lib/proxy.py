"""A proxy in front of the API server that injects faults by rules. usage: proxy.py PORT DIRECTORY

DIRECTORY holds server, server.crt, server.key, ca.crt of the cluster, and rules.json: a list of rules, read again at each
request; the first one whose "match" (a regular expression on "METHOD PATH") is found, and whose "times" are not used up,
says what happens:
  {"answer": STATUS, "headers": {…}, "body": "…"}   this answer, on a connection that stays open
  {"error": CODE, "reason": "…"}                    a stream of one ERROR event, in the encoding that was asked for
  {"hold": SECONDS}                                 nothing for that long, then as usual
  {"cut": BYTES}                                    the connection is reset after so much of the body
  {"silent": BYTES}                                 nothing more after so much of the body, the connection stays open
  {"drip": BYTES}                                   so many bytes at a time
  {"record": NAME}                                  as usual, and kept
  {"replay": NAME}                                  what was kept, then silence
Without a rule requests and answers pass unchanged, one request a connection. A line for each request goes to standard
output: time, rule or "-", request. Streams that are under way are cut when their rule's list contains {"match": …,
"now": "cut"}, fall silent by {"now": "silent"}, and gather what comes for as long as it contains {"now": "gather"}:
after that all of it goes on at once, as fast as the socket takes it, and a line says how many bytes that was; with
"repeat": COUNT as often as that, for which it has to begin and to end between two events. Meanwhile DIRECTORY/gathered says
how many bytes it is so far. DIRECTORY/oldest says when the request came that has been under way longest, as seconds since
1970; "none" where none is."""

import asyncio
import json
import pathlib
import re
import ssl
import struct
import sys
import time
import urllib.parse

LOOK = 0.05  # seconds between looks at the rules while a stream is quiet


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
        self.kept = {}
        self.under_way = []  # when each came, the oldest first
        self.tell("oldest", "none")

    def rules(self):
        try:
            return json.loads((self.directory / "rules.json").read_text())
        except ValueError:
            return []  # half written; it is read again

    def rule(self, request):
        """The rule for a new request; counts that use."""
        for rule in self.rules():
            if "now" in rule or not re.search(rule["match"], request):
                continue
            name = json.dumps(rule, sort_keys=True)
            if "times" in rule and self.used.get(name, 0) >= rule["times"]:
                continue
            self.used[name] = self.used.get(name, 0) + 1
            return rule
        return {}

    def tell(self, name, what):
        """Replaces the file atomically."""
        (self.directory / f"{name}.new").write_text(f"{what}\n")
        (self.directory / f"{name}.new").rename(self.directory / name)

    def tell_oldest(self):
        self.tell("oldest", f"{self.under_way[0]:.3f}" if self.under_way else "none")

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
        """One request; whether another may follow on this connection."""
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
        writer.write(bytes(self.kept.get(name, b"")))
        await writer.drain()
        await reader.read()  # until the client goes away

    async def relay(self, head, request, reader, writer, rule):
        came = time.time()
        self.under_way.append(came)
        self.tell_oldest()
        try:
            await self.relay_one(head, request, reader, writer, rule)
        finally:
            self.under_way.remove(came)
            self.tell_oldest()

    async def relay_one(self, head, request, reader, writer, rule):
        upstream, sink = await asyncio.open_connection(self.host, self.port, ssl=self.upstream)
        try:
            lines = [line for line in head.split("\r\n") if line and not line.lower().startswith("connection:")]
            sink.write(("\r\n".join(lines) + "\r\nConnection: close\r\n\r\n").encode())
            length = next((line.split(":", 1)[1] for line in lines if line.lower().startswith("content-length:")), "0")
            sink.write(await reader.readexactly(int(length)))  # of an Event
            answer = await upstream.readuntil(b"\r\n\r\n")
            kept = self.kept.setdefault(rule["record"], bytearray()) if "record" in rule else None
            if kept is not None:
                kept.clear()
                kept += answer
            writer.write(answer)
            await self.body(request, upstream, reader, writer, rule, kept)
        finally:
            sink.close()

    async def body(self, request, upstream, reader, writer, rule, kept):
        limit = rule.get("cut", rule.get("silent"))
        sent = 0
        gathered = bytearray()
        ended = False  # by the server, while it gathers
        gathering = False
        repeat = 1
        pending = asyncio.ensure_future(upstream.read(65536))
        gone = asyncio.ensure_future(reader.read(1))
        try:
            while True:
                await asyncio.wait({pending, gone}, timeout=LOOK, return_when=asyncio.FIRST_COMPLETED)
                told = self.now(request)
                now = told["now"]
                if gone.done():
                    return
                if now == "gather" and not gathering:
                    print(f"{time.time():.3f} gathering {request}", flush=True)
                gathering = now == "gather"
                repeat = told.get("repeat", 1) if gathering else repeat
                if now == "silent":
                    await gone
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
                    await asyncio.sleep(LOOK)  # the server has ended; what it said before is passed on in its time
                    continue
                if not data:
                    return
                if now == "gather":
                    gathered += data
                    self.tell("gathered", len(gathered))
                    pending = asyncio.ensure_future(upstream.read(65536))
                    continue
                if kept is not None:
                    kept += data
                if limit is not None:
                    data = data[:limit - sent]
                await self.send(writer, data, rule.get("drip"))
                sent += len(data)
                if sent == limit:
                    if "cut" in rule:
                        writer.transport.abort()
                    else:
                        await gone
                    return
                pending = asyncio.ensure_future(upstream.read(65536))
        finally:
            pending.cancel()
            gone.cancel()

    async def send(self, writer, data, drip):
        for at in range(0, len(data), drip or len(data) or 1):
            writer.write(data[at:at + (drip or len(data))])
            await writer.drain()
            if drip:
                await asyncio.sleep(0)  # a TLS record, and so a read, of its own


async def main():
    port, directory = int(sys.argv[1]), sys.argv[2]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{directory}/server.crt", f"{directory}/server.key")
    proxy = Proxy(directory)
    server = await asyncio.start_server(proxy.serve, None, port, ssl=context, limit=1 << 20)
    async with server:
        await server.serve_forever()


asyncio.run(main())
