/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Echo by io_uring: a server with multishot accepts and receives, and clients that connect, send (zero-copy) and receive by the
 * ring.
 * usage: uring serve PORT | uring stream ADDRESS PORT | uring datagram ADDRESS PORT
 */
#include <arpa/inet.h>
#include <errno.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BUFFERS = 64, BUFFER = 4096, GROUP = 1, CHUNK = 65536, CHUNKS = 32 };

/* The kind of a completion, in the upper bits of user_data; the socket or the buffer is in the lower bits. */
enum kind { ACCEPT, RECEIVE, PROVIDE };

static char buffers[BUFFERS][BUFFER];

static void fail(const char *what, int error)
{
	fprintf(stderr, "uring: %s: %s\n", what, strerror(error));
	exit(1);
}

union end {
	struct sockaddr any;
	struct sockaddr_in ipv4;
	struct sockaddr_in6 ipv6;
};

static union end end_of(const char *address, const char *port)
{
	union end made = {.ipv4 = {.sin_family = AF_INET, .sin_port = htons(atoi(port))}};

	if (inet_pton(AF_INET, address, &made.ipv4.sin_addr) == 1)
		return made;
	made = (union end){.ipv6 = {.sin6_family = AF_INET6, .sin6_port = htons(atoi(port))}};
	if (inet_pton(AF_INET6, address, &made.ipv6.sin6_addr) != 1)
		fail(address, EINVAL);
	return made;
}

static socklen_t size_of(const union end *end)
{
	return end->any.sa_family == AF_INET ? sizeof(end->ipv4) : sizeof(end->ipv6);
}

static struct io_uring_sqe *entry(struct io_uring *ring)
{
	struct io_uring_sqe *made = io_uring_get_sqe(ring);

	if (!made) {
		io_uring_submit(ring);
		made = io_uring_get_sqe(ring);
	}
	if (!made)
		fail("no entry is free", EAGAIN);
	return made;
}

/* Called after io_uring_prep_...(), which may clear the fields set here. */
static void tag(struct io_uring_sqe *made, enum kind kind, int number)
{
	io_uring_sqe_set_data64(made, (__u64)kind << 32 | (__u32)number);
}

/* ---- The server. ---- */

static void accept_more(struct io_uring *ring, int listener)
{
	struct io_uring_sqe *made = entry(ring);

	io_uring_prep_multishot_accept(made, listener, NULL, NULL, 0);
	tag(made, ACCEPT, listener);
}

static void receive_more(struct io_uring *ring, int connection)
{
	struct io_uring_sqe *made = entry(ring);

	io_uring_prep_recv_multishot(made, connection, NULL, 0, 0);
	made->flags |= IOSQE_BUFFER_SELECT;
	made->buf_group = GROUP;
	tag(made, RECEIVE, connection);
}

static void provide(struct io_uring *ring, int first, int count)
{
	struct io_uring_sqe *made = entry(ring);

	io_uring_prep_provide_buffers(made, buffers[first], BUFFER, count, GROUP, first);
	tag(made, PROVIDE, first);
}

/* Echoes a completed receive by a plain send: several sends of a ring might overtake each other. */
static void received(struct io_uring *ring, int connection, const struct io_uring_cqe *done)
{
	if (done->res > 0) {
		int buffer = done->flags >> IORING_CQE_BUFFER_SHIFT;

		send(connection, buffers[buffer], done->res, MSG_NOSIGNAL);
		provide(ring, buffer, 1);
	}
	if (done->flags & IORING_CQE_F_MORE)
		return;
	if (done->res > 0 || done->res == -ENOBUFS)
		receive_more(ring, connection);
	else
		close(connection);
}

static void completed(struct io_uring *ring, const struct io_uring_cqe *done)
{
	int number = (__u32)done->user_data;

	switch ((enum kind)(done->user_data >> 32)) {
	case ACCEPT:
		if (done->res >= 0)
			receive_more(ring, done->res);
		if (!(done->flags & IORING_CQE_F_MORE))
			accept_more(ring, number);
		break;
	case RECEIVE:
		received(ring, number, done);
		break;
	case PROVIDE:
		if (done->res < 0)
			fail("buffers", -done->res);
	}
}

static void serve(struct io_uring *ring, const char *port)
{
	const union end own = end_of("::", port); /* IPv4's clients, too */
	int listener = socket(AF_INET6, SOCK_STREAM, 0), reuse = 1;

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof(reuse));
	if (bind(listener, &own.any, size_of(&own)) || listen(listener, 128))
		fail("listening", errno);
	provide(ring, 0, BUFFERS);
	accept_more(ring, listener);
	for (;;) {
		struct io_uring_cqe *done;

		io_uring_submit_and_wait(ring, 1);
		while (!io_uring_peek_cqe(ring, &done)) {
			const struct io_uring_cqe one = *done;

			io_uring_cqe_seen(ring, done);
			completed(ring, &one);
		}
	}
}

/* ---- The clients. ---- */

/* The result of the only entry; for a zero-copy send the first completion has it, and the last one ends it. */
static int result(struct io_uring *ring, const char *what)
{
	struct io_uring_cqe *done;
	int found = -1, more;

	do {
		io_uring_submit_and_wait(ring, 1);
		if (io_uring_wait_cqe(ring, &done))
			fail(what, EIO);
		if (!(done->flags & IORING_CQE_F_NOTIF))
			found = done->res;
		more = done->flags & IORING_CQE_F_MORE;
		io_uring_cqe_seen(ring, done);
	} while (more);
	if (found < 0)
		fail(what, -found);
	return found;
}

static void same(const char *sent, const char *heard, size_t length)
{
	if (memcmp(sent, heard, length))
		fail("the echo is another", EPROTO);
}

static int stream(struct io_uring *ring, const union end *service)
{
	static char sent[CHUNK], heard[CHUNK];
	int connection = socket(service->any.sa_family, SOCK_STREAM, 0);

	io_uring_prep_connect(entry(ring), connection, &service->any, size_of(service));
	result(ring, "connect");
	for (int chunk = 0; chunk < CHUNKS; chunk++) {
		for (int at = 0; at < CHUNK; at++)
			sent[at] = at * 7 + chunk;
		if (chunk % 2)
			io_uring_prep_send(entry(ring), connection, sent, CHUNK, MSG_WAITALL);
		else
			io_uring_prep_send_zc(entry(ring), connection, sent, CHUNK, MSG_WAITALL, 0);
		if (result(ring, "send") != CHUNK)
			fail("sent too little", EIO);
		io_uring_prep_recv(entry(ring), connection, heard, CHUNK, MSG_WAITALL);
		if (result(ring, "receive") != CHUNK)
			fail("heard too little", EIO);
		same(sent, heard, CHUNK);
	}
	return 0;
}

static int is_same_end(const union end *one, const union end *other)
{
	if (one->any.sa_family == AF_INET6)
		return one->ipv6.sin6_port == other->ipv6.sin6_port &&
		       !memcmp(&one->ipv6.sin6_addr, &other->ipv6.sin6_addr, sizeof(one->ipv6.sin6_addr));
	return one->ipv4.sin_port == other->ipv4.sin_port &&
	       one->ipv4.sin_addr.s_addr == other->ipv4.sin_addr.s_addr;
}

/* Without a connection: the answer has to come from whom was asked. */
static int datagram(struct io_uring *ring, const union end *service)
{
	char sent[] = "hello\n", heard[sizeof(sent)] = "";
	union end to = *service, from = {0};
	struct iovec out = {sent, sizeof(sent) - 1}, in = {heard, sizeof(heard)};
	struct msghdr asked = {
		.msg_name = &to, .msg_namelen = size_of(&to), .msg_iov = &out, .msg_iovlen = 1};
	struct msghdr answered = {
		.msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = &in, .msg_iovlen = 1};
	int asking = socket(to.any.sa_family, SOCK_DGRAM, 0);

	io_uring_prep_sendmsg(entry(ring), asking, &asked, 0);
	result(ring, "sendmsg");
	io_uring_prep_recvmsg(entry(ring), asking, &answered, 0);
	if (result(ring, "recvmsg") != (int)sizeof(sent) - 1)
		fail("heard too little", EIO);
	same(sent, heard, sizeof(sent) - 1);
	if (from.any.sa_family != service->any.sa_family || !is_same_end(&from, service))
		fail("an answer from another", EPROTO);
	return 0;
}

int main(int count, char **words)
{
	union end service;
	struct io_uring ring;
	int error = io_uring_queue_init(256, &ring, 0);

	if (error)
		fail("a ring", -error);
	if (count == 3 && !strcmp(words[1], "serve"))
		serve(&ring, words[2]);
	if (count != 4)
		fail("serve PORT, stream ADDRESS PORT or datagram ADDRESS PORT", EINVAL);
	service = end_of(words[2], words[3]);
	return strcmp(words[1], "stream") ? datagram(&ring, &service) : stream(&ring, &service);
}
