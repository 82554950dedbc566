/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Counts the system calls of all processes of one cgroup. For bench/syscalls.cpp only. */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

/* Set before loading. */
const volatile __u64 lb_cgroup = 0;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} calls SEC(".maps");

SEC("raw_tp/sys_enter")
int count_call(void *context)
{
	__u32 first = 0;
	__u64 *count;

	(void)context;
	if (bpf_get_current_cgroup_id() != lb_cgroup)
		return 0;
	count = bpf_map_lookup_elem(&calls, &first);
	if (count)
		__sync_fetch_and_add(count, 1);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
