# SPDX-License-Identifier: Apache-2.0
"""Client and server of the differential test (differ.py).

usage: prober.py serve TCP_PORT,... UDP_PORT,...    answers "ADDRESS PORT PEER": its own address and port, and the client's address
       prober.py ask    reads lines of JSON, [[PROTOCOL, ADDRESS, PORT, TIMES], ...]. Sends all requests of a line concurrently, each by
                        a new socket, and prints a list in the same order: {answer: count}. An answer is a server's response,
                        "refused", "timeout" or the name of another error. With the protocol HTTP, for a health-check node port,
                        it is status and count of endpoints, such as 200:2"""

import collections
import errno
import json
import selectors
import socket
import struct
import sys
import threading
import time

TIMEOUT = 0.9  # seconds: less than the time after which a SYN is retransmitted
RECVERR = {socket.AF_INET: (socket.IPPROTO_IP, 11), socket.AF_INET6: (socket.IPPROTO_IPV6, 25)}
MOST_CONCURRENT = 120


def plain(address):
    return address.removeprefix("::ffff:")


def serve_tcp(port):
    listener = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    listener.bind(("::", port))
    listener.listen(1024)
    while True:
        connection, peer = listener.accept()
        try:
            connection.sendall(f"{plain(connection.getsockname()[0])} {port} {plain(peer[0])}\n".encode())
        except OSError:
            pass
        connection.close()


def serve_udp(family, port):
    """Serves UDP; a response has the request's destination as its source address."""
    sock = socket.socket(family, socket.SOCK_DGRAM)
    if family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
        sock.bind(("::", port))
    else:
        sock.setsockopt(socket.IPPROTO_IP, 8, 1)  # IP_PKTINFO
        sock.bind(("0.0.0.0", port))
    while True:
        _, control, _, peer = sock.recvmsg(2048, 256)
        data = control[0][2]
        here = socket.inet_ntop(family, data[:16] if family == socket.AF_INET6 else struct.unpack("=I4s4s", data[:12])[2])
        try:
            sock.sendmsg([f"{here} {port} {peer[0]}\n".encode()], control, 0, peer)
        except OSError:
            pass


def serve(tcp, udp):
    threads = [threading.Thread(target=serve_tcp, args=(int(port),)) for port in tcp.split(",")]
    for port in udp.split(","):
        threads += [threading.Thread(target=serve_udp, args=(family, int(port)))
                    for family in (socket.AF_INET, socket.AF_INET6)]
    for thread in threads:
        thread.start()


def name_of(code):
    return {errno.ECONNREFUSED: "refused", errno.ETIMEDOUT: "timeout"}.get(code, errno.errorcode.get(code, str(code)))


def health(address, port):
    """The status and the count of local endpoints that a health-check node port returns."""
    try:
        with socket.create_connection((address, port), TIMEOUT) as connection:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n")
            answer = b""
            while data := connection.recv(4096):
                answer += data
        head, body = answer.decode().split("\r\n\r\n", 1)
        return f"{head.split()[1]}:{json.loads(body)['localEndpoints']}"
    except (ValueError, KeyError):
        return "malformed"
    except OSError as error:
        return "timeout" if error.errno is None else name_of(error.errno)


class Requester:
    """Sends requests concurrently, and counts the results of each question."""

    def __init__(self):
        self.selector = selectors.DefaultSelector()
        self.left = {}

    def begin(self, counts, protocol, address, port):
        if protocol == "HTTP":
            counts[health(address, port)] += 1
            return
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM if protocol == "TCP" else socket.SOCK_DGRAM)
        sock.setblocking(False)
        # Over a veth an ICMP error arrives while connect() still holds the socket, and would only be reported at the next SYN.
        sock.setsockopt(*RECVERR[family], 1)
        try:
            sock.connect((address, port))
        except BlockingIOError:
            pass
        except OSError as error:
            counts[name_of(error.errno)] += 1
            sock.close()
            return
        if protocol == "UDP":
            try:
                sock.send(b"?")
            except PermissionError:
                pass  # an egress rule: an ICMP error distinguishes a refusal from a drop
            except OSError as error:
                counts[name_of(error.errno)] += 1
                sock.close()
                return
        self.left[sock] = (counts, time.monotonic() + TIMEOUT)
        self.selector.register(sock, selectors.EVENT_READ)

    def end(self, sock, answer):
        counts, _ = self.left.pop(sock)
        self.selector.unregister(sock)
        sock.close()
        counts[answer] += 1

    def step(self):
        for key, _ in self.selector.select(0.05):
            try:
                # Only SO_ERROR reports an ICMP error about a handshake.
                wrong = key.fileobj.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if wrong:
                    raise OSError(wrong, "")
                data = key.fileobj.recv(2048)
                self.end(key.fileobj, data.decode().strip() or "closed")
            except OSError as error:
                self.end(key.fileobj, name_of(error.errno))
        now = time.monotonic()
        for sock in [sock for sock, (_, until) in self.left.items() if until < now]:
            self.end(sock, "timeout")

    def ask(self, questions):
        answers = [collections.Counter() for _ in questions]
        todo = collections.deque((at, question) for at, question in enumerate(questions) for _ in range(question[3]))
        while todo or self.left:
            while todo and len(self.left) < MOST_CONCURRENT:
                at, (protocol, address, port, _) = todo.popleft()
                # Two timeouts or refusals are enough: a third request would not be answered either, and refusals are
                # rate-limited.
                if answers[at]["timeout"] + answers[at]["refused"] < 2 and not (protocol == "HTTP" and answers[at]):
                    self.begin(answers[at], protocol, address, port)
            self.step()
        return answers


def main():
    if sys.argv[1] == "serve":
        serve(sys.argv[2], sys.argv[3])
        return
    requester = Requester()
    for line in sys.stdin:
        print(json.dumps(requester.ask(json.loads(line))), flush=True)


main()
