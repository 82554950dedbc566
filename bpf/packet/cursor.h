/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A position in a packet and the one bounds check that moves it. Works on the data of any context. */
#ifndef SLUICE_BPF_CURSOR_H
#define SLUICE_BPF_CURSOR_H

#include <stddef.h>

#include <linux/types.h>

struct lb_cursor {
	void *start;
	void *pos;
	void *end;
};

/* `offset` must have a bound that the verifier knows. */
static __always_inline struct lb_cursor lb_cursor_at(void *start, void *end, __u32 offset)
{
	struct lb_cursor cursor = {.start = start, .pos = start + offset, .end = end};

	return cursor;
}

/* The next `size` bytes, or NULL if the packet ends before. */
static __always_inline void *lb_take(struct lb_cursor *cursor, __u32 size)
{
	void *here = cursor->pos;

	if (here + size > cursor->end)
		return NULL;
	cursor->pos = here + size;
	return here;
}

static __always_inline __u16 lb_offset(const struct lb_cursor *cursor)
{
	return (__u16)(cursor->pos - cursor->start);
}

#endif
