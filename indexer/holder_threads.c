/* Root holders of threads: registers, live stacks, TLS blocks.
 * SPDX-License-Identifier: MIT */
#include "indexer/holder_internal.h"

#include <stdio.h>
#include <string.h>

#include "indexer/demangle.h"
#include "indexer/holder_tls.h"

/* A claim's `data` holds the thread's index and what part of it is meant; from
 * first_frame on it is a frame, from first_variable on a variable. */
enum part { PART_STACK, PART_TLS, PART_DEAD, NUM_PARTS };

struct thread_claims {
	const struct hf_thread *threads;
	const struct hf_stacks *stacks; /* may be NULL */
	const struct hf_tls_parts *variables;
	uint32_t first_frame, first_variable;
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

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* What a person would say: thread 4711 "worker-3": serve() at server.c:214. */
static char *frame_text(const struct hf_frame *frame,
			const struct hf_thread *thread)
{
	const char *function = frame->function ? frame->function : "??";
	/* A demangled name has its arguments. */
	const char *call = strchr(function, '(') ? "" : "()";
	char *text;
	int n;

	if (frame->file)
		n = asprintf(&text, "thread %d \"%s\": %s%s at %s:%u",
			     (int)thread->tid, thread->name, function, call,
			     base_name(frame->file), frame->line);
	else
		n = asprintf(&text, "thread %d \"%s\": %s%s",
			     (int)thread->tid, thread->name, function, call);
	return n < 0 ? NULL : text;
}

static struct hf_error *took_frame(const struct thread_claims *claims,
				   uint32_t id, struct hf_range part)
{
	const struct hf_frame *frame = &claims->stacks->frames[id];
	struct hf_holder holder = {
		.kind = HF_HOLDER_STACK,
		.range = part,
		.thread_index = frame->thread,
		.frame = id,
		.module_id = HF_NO_MODULE,
		.name = frame_text(frame, &claims->threads[frame->thread]),
	};

	return hf_holder_list_take(claims->holders, &holder);
}

/* "thread_cache, TLS of worker-3 (tid 4711)" */
static struct hf_error *took_variable(const struct thread_claims *claims,
				      uint32_t id, struct hf_range part)
{
	const struct hf_tls_part *variable = &claims->variables->list.data[id];
	HF_AUTO_FREE char *name = hf_demangle_or_copy(variable->name);
	HF_AUTO_FREE char *block =
		thread_text("TLS", &claims->threads[variable->thread_index]);
	struct hf_holder holder = {
		.kind = HF_HOLDER_TLS,
		.range = part,
		.thread_index = variable->thread_index,
		.frame = UINT32_MAX,
		.module_id = variable->module_id,
	};

	if (!name || !block ||
	    asprintf(&holder.name, "%s, %s", name, block) < 0)
		return &hf_enomem;
	return hf_holder_list_take(claims->holders, &holder);
}

static struct hf_error *took_part(void *arg, uint32_t data,
				  struct hf_range part)
{
	struct thread_claims *claims = arg;
	uint32_t index = data / NUM_PARTS;
	const struct hf_thread *thread;
	bool is_stack = data % NUM_PARTS == PART_STACK;
	struct hf_holder holder = {
		.kind = is_stack ? HF_HOLDER_STACK : HF_HOLDER_TLS,
		.range = part,
		.thread_index = index,
		.frame = UINT32_MAX,
		.module_id = HF_NO_MODULE,
	};

	if (data >= claims->first_variable)
		return took_variable(claims, data - claims->first_variable,
				     part);
	if (data >= claims->first_frame)
		return took_frame(claims, data - claims->first_frame, part);
	if (data % NUM_PARTS == PART_DEAD)
		return NULL;
	thread = &claims->threads[index];
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
			.frame = UINT32_MAX,
			.module_id = HF_NO_MODULE,
			.name = thread_text("registers", &threads[i]),
		};
		struct hf_error *err = hf_holder_list_take(holders, &holder);

		if (err)
			return err;
	}
	return NULL;
}

/* The parts of a thread's live stack, each a frame's; what lies above the last
 * frame that is known stays the stack. A frame begins where its callee's ends,
 * the innermost with the red zone. Inlined functions have no frame of their
 * own: theirs is that of the function they are in.
 * @return the end of the last frame. */
static uint64_t claim_frames(const struct hf_stacks *stacks, uint32_t thread,
			     struct hf_range stack, size_t *next,
			     uint32_t first_frame, struct hf_claim *claims,
			     size_t *num_claims)
{
	uint64_t done = stack.start;

	while (*next < stacks->num_frames &&
	       stacks->frames[*next].thread < thread)
		(*next)++;
	for (; *next < stacks->num_frames &&
	     stacks->frames[*next].thread == thread; (*next)++) {
		const struct hf_frame *frame = &stacks->frames[*next];

		if (frame->is_inlined || frame->cfa <= done)
			continue;
		if (frame->cfa > stack.end)
			continue;
		claims[(*num_claims)++] = (struct hf_claim){
			{ done, frame->cfa }, first_frame + (uint32_t)*next
		};
		done = frame->cfa;
	}
	return done;
}

/* The variables in a thread's TLS block; what lies between them stays the
 * block. @return where the rest of the block starts. */
static uint64_t claim_variables(const struct hf_tls_parts *variables,
				uint32_t thread, struct hf_range tls,
				size_t *next, uint32_t first_variable,
				struct hf_claim *claims, size_t *num_claims)
{
	uint64_t done = tls.start;

	for (; *next < variables->list.num; (*next)++) {
		const struct hf_tls_part *part = &variables->list.data[*next];

		if (part->thread_index > thread)
			break;
		if (part->thread_index < thread || part->range.start < done ||
		    part->range.end > tls.end)
			continue;
		claims[(*num_claims)++] = (struct hf_claim){
			{ done, part->range.start },
			thread * NUM_PARTS + PART_TLS
		};
		claims[(*num_claims)++] = (struct hf_claim){
			part->range, first_variable + (uint32_t)*next
		};
		done = part->range.end;
	}
	return done;
}

static struct hf_error *claim_all(const struct hf_image *image,
				  const struct hf_stacks *stacks,
				  const struct hf_tls_parts *variables,
				  struct hf_ranges *free_ranges,
				  struct hf_holder_list *holders)
{
	size_t num;
	const struct hf_thread *threads = hf_image_threads(image, &num);
	size_t num_frames = stacks ? stacks->num_frames : 0, next = 0;
	size_t next_variable = 0;
	struct thread_claims arg = {
		.threads = threads, .stacks = stacks, .variables = variables,
		.first_frame = (uint32_t)num * NUM_PARTS,
		.first_variable = (uint32_t)(num * NUM_PARTS + num_frames),
		.holders = holders,
	};
	HF_AUTO_FREE struct hf_claim *claims =
		calloc(num * NUM_PARTS + num_frames +
			       2 * variables->list.num + 1, sizeof(*claims));
	struct hf_error *err;
	size_t num_claims = 0;

	if (!claims)
		return &hf_enomem;
	for (size_t i = 0; i < num; i++) {
		struct hf_range parts[NUM_PARTS] = {
			[PART_STACK] = threads[i].stack,
			[PART_TLS] = threads[i].tls,
			[PART_DEAD] = dead_stack(image, threads, num, i),
		};

		if (stacks && threads[i].stack.start < threads[i].stack.end)
			parts[PART_STACK].start = claim_frames(
				stacks, (uint32_t)i, threads[i].stack, &next,
				arg.first_frame, claims, &num_claims);
		parts[PART_TLS].start = claim_variables(
			variables, (uint32_t)i, threads[i].tls, &next_variable,
			arg.first_variable, claims, &num_claims);
		for (uint32_t p = 0; p < NUM_PARTS; p++)
			claims[num_claims++] = (struct hf_claim){
				parts[p], (uint32_t)i * NUM_PARTS + p
			};
	}
	num_claims = hf_claims_normalize(claims, num_claims);
	err = hf_carve(free_ranges, claims, num_claims, took_part, &arg);
	return err ? err : add_registers(holders, threads, num);
}

struct hf_error *hf_holders_of_threads(const struct hf_image *image,
				       const struct hf_stacks *stacks,
				       struct hf_ranges *free_ranges,
				       struct hf_holder_list *holders)
{
	struct hf_tls_parts variables = { .modules = NULL };
	struct hf_error *err = hf_tls_parts_find(image, &variables);

	if (!err)
		err = claim_all(image, stacks, &variables, free_ranges,
				holders);
	hf_tls_parts_deinit(&variables);
	return err;
}
