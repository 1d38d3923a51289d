/* Root holders of threads: registers, live stacks, TLS blocks.
 * SPDX-License-Identifier: MIT */
#include "indexer/holder_internal.h"

#include <stdio.h>

/* A claim's `data` holds the thread's index and what part of it is meant. */
enum part { PART_STACK, PART_TLS, PART_DEAD, NUM_PARTS };

struct thread_claims {
	const struct hf_thread *threads;
	struct hf_holder_list *holders;
};

static char *thread_text(const char *what, const struct hf_thread *thread)
{
	char *text;

	if (asprintf(&text, "%s of %s (tid %d)", what, thread->name,
		     (int)thread->tid) < 0)
		return NULL;
	return text;
}

static struct hf_error *took_part(void *arg, uint32_t data,
				  struct hf_range part)
{
	struct thread_claims *claims = arg;
	uint32_t index = data / NUM_PARTS;
	const struct hf_thread *thread = &claims->threads[index];
	bool is_stack = data % NUM_PARTS == PART_STACK;
	struct hf_holder holder = {
		.kind = is_stack ? HF_HOLDER_STACK : HF_HOLDER_TLS,
		.range = part,
		.thread_index = index,
		.module_id = HF_NO_MODULE,
	};

	if (data % NUM_PARTS == PART_DEAD)
		return NULL;
	holder.name = thread_text(is_stack ? "stack" : "TLS", thread);
	return hf_holder_list_take(claims->holders, &holder);
}

static bool is_inside(uint64_t addr, struct hf_range range)
{
	return addr - range.start < range.end - range.start;
}

/* The stack that glibc gave a thread, from its own descriptor. In struct
 * pthread, which starts at fs_base, these three follow each other (glibc 2.17
 * to 2.36 nptl/descr.h; where they stand differs from version to version):
 *
 *	void  *stackblock        lowest address, guard included
 *	size_t stackblock_size   guard included
 *	size_t guardsize
 *
 * They are found by what they say: a block around both the stack pointer and
 * the descriptor, within the mapping (of which a guard made by mprotect is no
 * part), and a guard of whole pages. Other words may look like that, such as
 * the links to the neighbours' descriptors: where two answers differ, or
 * another thread lies in what would be dead, nothing is known. For a stack of
 * the program's own the three describe that.
 */
enum { DESCRIPTOR_WORDS = 2304 / 8, PAGE_BYTES = 4096 };

static bool is_stack_block(const struct hf_thread *thread,
			   const struct hf_segment *segment,
			   const uint64_t *words, struct hf_range *ret)
{
	uint64_t start = words[0], size = words[1], guard = words[2], end;

	if (!start || start % 16 || guard >= size || guard % PAGE_BYTES ||
	    size - guard > segment->end - segment->start ||
	    __builtin_add_overflow(start, size, &end) || end > segment->end ||
	    start + guard < segment->start)
		return false;
	*ret = (struct hf_range){ start + guard, end };
	return is_inside(thread->regs.rsp, *ret) &&
	       is_inside(thread->regs.fs_base, *ret);
}

static struct hf_range stack_block(const struct hf_image *image,
				   const struct hf_thread *thread,
				   const struct hf_segment *segment)
{
	uint64_t words[DESCRIPTOR_WORDS];
	struct hf_range block, found = { 0, 0 };
	size_t num = hf_image_read_some(image, thread->regs.fs_base, words,
					sizeof(words)) / 8;

	for (size_t i = 0; i + 3 <= num; i++) {
		if (!is_stack_block(thread, segment, &words[i], &block))
			continue;
		if (found.start && found.start != block.start)
			return (struct hf_range){ 0, 0 };
		found = block;
	}
	return found;
}

static bool has_other_thread(const struct hf_thread *threads, size_t num,
			     size_t self, struct hf_range range)
{
	for (size_t i = 0; i < num; i++)
		if (i != self && (is_inside(threads[i].regs.rsp, range) ||
				  is_inside(threads[i].regs.fs_base, range)))
			return true;
	return false;
}

/* The memory of the thread's own stack below the live part, or nothing. Only
 * [stack], and what glibc says it gave to the thread, is known to be a stack
 * and nothing else: beside it in a mapping may be anything. */
static struct hf_range dead_stack(const struct hf_image *image,
				  const struct hf_thread *threads, size_t num,
				  size_t self)
{
	const struct hf_thread *thread = &threads[self];
	const struct hf_segment *segment =
		hf_image_find_segment(image, thread->stack.start);
	struct hf_range dead = { 0, 0 };

	if (!segment || thread->on_other_stack ||
	    thread->stack.start == thread->stack.end)
		return dead;
	if (segment->kind == HF_SEGMENT_STACK)
		dead.start = segment->start;
	else
		dead.start = stack_block(image, thread, segment).start;
	dead.end = thread->stack.start;
	if (!dead.start || dead.start >= dead.end ||
	    has_other_thread(threads, num, self, dead))
		return (struct hf_range){ 0, 0 };
	return dead;
}

static struct hf_error *add_registers(struct hf_holder_list *holders,
				      const struct hf_thread *threads,
				      size_t num)
{
	for (size_t i = 0; i < num; i++) {
		struct hf_holder holder = {
			.kind = HF_HOLDER_REGISTERS,
			.thread_index = (uint32_t)i,
			.module_id = HF_NO_MODULE,
			.name = thread_text("registers", &threads[i]),
		};
		struct hf_error *err = hf_holder_list_take(holders, &holder);

		if (err)
			return err;
	}
	return NULL;
}

struct hf_error *hf_holders_of_threads(const struct hf_image *image,
				       struct hf_ranges *free_ranges,
				       struct hf_holder_list *holders)
{
	size_t num;
	const struct hf_thread *threads = hf_image_threads(image, &num);
	struct thread_claims arg = { threads, holders };
	HF_AUTO_FREE struct hf_claim *claims =
		calloc(num * NUM_PARTS + 1, sizeof(*claims));
	struct hf_error *err;
	size_t num_claims = 0;

	if (!claims)
		return &hf_enomem;
	for (size_t i = 0; i < num; i++) {
		const struct hf_range parts[NUM_PARTS] = {
			[PART_STACK] = threads[i].stack,
			[PART_TLS] = threads[i].tls,
			[PART_DEAD] = dead_stack(image, threads, num, i),
		};

		for (uint32_t p = 0; p < NUM_PARTS; p++)
			claims[num_claims++] = (struct hf_claim){
				parts[p], (uint32_t)i * NUM_PARTS + p
			};
	}
	num_claims = hf_claims_normalize(claims, num_claims);
	err = hf_carve(free_ranges, claims, num_claims, took_part, &arg);
	return err ? err : add_registers(holders, threads, num);
}
