# SPDX-License-Identifier: Apache-2.0
"""A backend that says who it is: HTTP on one port, datagrams on another, both families.
usage: backend.py NAME TCP_PORT UDP_PORT. Every answer is one line: NAME and the address it sees its client under."""

import http.server
import socket
import socketserver
import sys
import threading


def plain(address):
    """The address of an IPv4 client of an IPv6 socket, in IPv4 notation."""
    return address.removeprefix("::ffff:")


class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 60

    def do_GET(self):
        body = f"{self.server.name} {plain(self.client_address[0])}\n".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        """Accepts a body of any size and returns its size."""
        left = int(self.headers.get("Content-Length", 0))
        total = left
        while left > 0:
            left -= len(self.rfile.read(min(left, 1 << 16)) or sys.exit("the client went away"))
        body = f"{self.server.name} {plain(self.client_address[0])} {total}\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Web(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6
    request_queue_size = 1024
    daemon_threads = True

    def server_bind(self):
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        socketserver.TCPServer.server_bind(self)  # not HTTPServer's, which asks the resolver for a name


def echo(name, family, address, port):
    """Serves one socket per family, so that a response leaves from the address that was asked."""
    sock = socket.socket(family, socket.SOCK_DGRAM)
    if family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    sock.bind((address, port))
    sock.setsockopt(socket.IPPROTO_IP if family == socket.AF_INET else socket.IPPROTO_IPV6,
                    8 if family == socket.AF_INET else socket.IPV6_RECVPKTINFO, 1)
    while True:
        _, control, _, peer = sock.recvmsg(65535, 256)
        sock.sendmsg([f"{name} {peer[0]}\n".encode()], control, 0, peer)


def main():
    name, tcp_port, udp_port = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        threading.Thread(target=echo, args=(name, family, address, udp_port), daemon=True).start()
    web = Web(("::", tcp_port), Answer)
    web.name = name
    web.serve_forever()


main()
