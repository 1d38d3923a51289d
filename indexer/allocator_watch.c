/* Allocator watch: threads and locks of a stopped process.
 * SPDX-License-Identifier: MIT */
#include "indexer/allocator_watch.h"

#include <sys/syscall.h>

enum {
	MAX_ARENAS = 1 << 16, /* of all lists */
	MAX_NEW_ARENAS = 64,  /* since they were found; of each list */
	BATCH_ARENAS = 500,   /* in one read, two ranges each */
	BATCH_STACKS = 64,
	STACK_BYTES = 512,    /* of the top of a stack */
};

struct arena {
	uint64_t addr;
	uint32_t place;       /* index in places */
};

/* What one read brings in of an arena. */
struct arena_words {
	uint32_t lock;
	uint64_t next;
} __attribute__((packed));

struct stack_top {
	size_t thread;
	bool in_call;         /* of the kernel: all its words count */
};

struct hf_allocator_watch {
	hf_allocator_places places;
	HF_ARRAY(struct arena) arenas; /* of each place, one after the other;
					* the first of a place comes first.
					* Room for new ones behind them */
	HF_ARRAY(uint64_t) locks;      /* addresses, ascending, then new ones */
	size_t num_sorted;             /* of locks */
	HF_ARRAY(uint64_t) locked;     /* arenas; room for all */
	struct hf_range ranges[2 * BATCH_ARENAS];
	struct arena_words words[BATCH_ARENAS];
	struct stack_top tops[BATCH_STACKS];
	uint64_t stacks[BATCH_STACKS * STACK_BYTES / 8];
};

struct hf_error *hf_allocator_watch_create(struct hf_allocator_watch **ret)
{
	struct hf_allocator_watch *watch = calloc(1, sizeof(*watch));

	if (!watch)
		return &hf_enomem;
	*ret = watch;
	return NULL;
}

static void drop_arenas(struct hf_allocator_watch *watch)
{
	watch->arenas.num = 0;
	watch->locks.num = watch->num_sorted = 0;
	watch->locked.num = 0;
}

void hf_allocator_watch_destroy(struct hf_allocator_watch *watch)
{
	if (!watch)
		return;
	hf_allocator_places_deinit(&watch->places);
	hf_array_deinit(&watch->arenas);
	hf_array_deinit(&watch->locks);
	hf_array_deinit(&watch->locked);
	free(watch);
}

static struct hf_error *reserve(struct hf_allocator_watch *watch)
{
	size_t room = watch->places.num * MAX_NEW_ARENAS;
	struct hf_error *err = hf_array_reserve(&watch->arenas, room);

	if (!err)
		err = hf_array_reserve(&watch->locks, room);
	if (!err)
		err = hf_array_reserve(&watch->locked,
				       watch->arenas.num + room);
	return err;
}

struct hf_error *hf_allocator_watch_set(struct hf_allocator_watch *watch,
					hf_allocator_places *places)
{
	hf_allocator_places_deinit(&watch->places);
	watch->places = *places;
	*places = (hf_allocator_places){ 0 };
	drop_arenas(watch);
	return reserve(watch);
}

size_t hf_allocator_watch_num_places(const struct hf_allocator_watch *watch)
{
	return watch->places.num;
}

/* ---- arenas ---- */

static void set_ranges(const struct hf_allocator_place *place, uint64_t addr,
		       struct hf_range *ranges)
{
	ranges[0].start = addr + place->lock_offset;
	ranges[0].end = ranges[0].start + sizeof(uint32_t);
	ranges[1].start = addr + place->next_offset;
	ranges[1].end = ranges[1].start + sizeof(uint64_t);
}

static bool read_arena(const struct hf_allocator_place *place, uint64_t addr,
		       const struct hf_allocator_memory *memory,
		       struct arena_words *ret)
{
	struct hf_range ranges[2];

	/* A range must not wrap. */
	if (addr >> 47 != 0)
		return false;
	set_ranges(place, addr, ranges);
	return memory->read(memory->arg, ranges, 2, ret) == sizeof(*ret);
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* A list that was read while it changed, or is no list, may lead anywhere: it
 * ends after as many entries as there can be. */
static struct hf_error *
find_arenas_of(struct hf_allocator_watch *watch, uint32_t index,
	       const struct hf_allocator_memory *memory)
{
	const struct hf_allocator_place *place = &watch->places.data[index];
	uint64_t addr = place->first_arena, mark = 0;
	struct arena_words words;
	size_t steps = 0, next_mark = 1;

	while (addr && watch->arenas.num < MAX_ARENAS &&
	       read_arena(place, addr, memory, &words)) {
		struct arena arena = { addr, index };
		struct hf_error *err = hf_array_append(&watch->arenas, arena);

		if (!err)
			err = hf_array_append(&watch->locks,
					      addr + place->lock_offset);
		if (err)
			return err;
		addr = words.next;
		/* All of them; or a loop (found as by Brent, 1980). */
		if (addr == place->first_arena || addr == mark)
			break;
		if (++steps == next_mark) {
			mark = addr;
			next_mark *= 2;
		}
	}
	return NULL;
}

/* A loop that does not lead back to the first arena fills the list with the
 * same ones over and over: they are counted once. */
static void drop_doubles(struct hf_allocator_watch *watch)
{
	size_t num = 0;

	for (size_t i = 0; i < watch->locks.num; i++)
		if (num == 0 ||
		    watch->locks.data[num - 1] != watch->locks.data[i])
			watch->locks.data[num++] = watch->locks.data[i];
	if (num == watch->locks.num)
		return;
	watch->locks.num = num;
	/* Which of the entries are doubles is not worth finding out: in such
	 * a list nothing can be believed. */
	watch->arenas.num = 0;
}

struct hf_error *
hf_allocator_watch_find_arenas(struct hf_allocator_watch *watch,
			       const struct hf_allocator_memory *memory)
{
	struct hf_error *err = NULL;

	drop_arenas(watch);
	for (uint32_t i = 0; i < watch->places.num && !err; i++)
		err = find_arenas_of(watch, i, memory);
	if (err)
		return err;
	if (watch->locks.num)
		qsort(watch->locks.data, watch->locks.num,
		      sizeof(watch->locks.data[0]), compare_u64);
	drop_doubles(watch);
	watch->num_sorted = watch->locks.num;
	return reserve(watch);
}

static bool is_lock(const struct hf_allocator_watch *watch, uint64_t addr)
{
	size_t low = 0, high = watch->num_sorted;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (watch->locks.data[mid] < addr)
			low = mid + 1;
		else
			high = mid;
	}
	if (low < watch->num_sorted && watch->locks.data[low] == addr)
		return true;
	for (size_t i = watch->num_sorted; i < watch->locks.num; i++)
		if (watch->locks.data[i] == addr)
			return true;
	return false;
}

static void note(struct hf_allocator_watch *watch, uint64_t addr,
		 const struct arena_words *words)
{
	if (words->lock && watch->locked.num < watch->locked.capacity)
		watch->locked.data[watch->locked.num++] = addr;
}

/* Arenas that were made since: between the first and the second of the list. */
static void look_at_new(struct hf_allocator_watch *watch, uint32_t index,
			uint64_t next, uint64_t second,
			const struct hf_allocator_memory *memory)
{
	const struct hf_allocator_place *place = &watch->places.data[index];
	struct arena_words words;

	for (uint32_t i = 0; i < MAX_NEW_ARENAS && next != second &&
			     next != place->first_arena &&
			     watch->locks.num < watch->locks.capacity &&
			     read_arena(place, next, memory, &words); i++) {
		watch->locks.data[watch->locks.num++] =
			next + place->lock_offset;
		note(watch, next, &words);
		next = words.next;
	}
}

/* Where a range cannot be read, the memory of an arena is gone: a libc that
 * was unloaded, or another program by now. Go on behind it. */
static void look_at_batch(struct hf_allocator_watch *watch, size_t first,
			  size_t num, const struct hf_allocator_memory *memory)
{
	enum { BYTES = sizeof(struct arena_words) };
	size_t done = 0;

	for (size_t i = 0; i < num; i++) {
		const struct arena *arena = &watch->arenas.data[first + i];

		set_ranges(&watch->places.data[arena->place], arena->addr,
			   &watch->ranges[2 * i]);
	}
	while (done < num) {
		size_t got = memory->read(memory->arg,
					  &watch->ranges[2 * done],
					  2 * (num - done), watch->words);

		for (size_t i = 0; i < got / BYTES; i++) {
			size_t k = first + done + i;
			const struct arena *arena = &watch->arenas.data[k];
			uint32_t place = arena->place;

			note(watch, arena->addr, &watch->words[i]);
			if (arena->addr != watch->places.data[place].first_arena)
				continue;
			look_at_new(watch, place, watch->words[i].next,
				    k + 1 < watch->arenas.num &&
					    arena[1].place == place ?
					    arena[1].addr : arena->addr,
				    memory);
		}
		done += got / BYTES + 1;
	}
}

static void look_at_arenas(struct hf_allocator_watch *watch,
			   const struct hf_allocator_memory *memory)
{
	size_t num = watch->arenas.num;

	watch->locked.num = 0;
	watch->locks.num = watch->num_sorted;
	for (size_t i = 0; i < num; i += BATCH_ARENAS)
		look_at_batch(watch, i, num - i < BATCH_ARENAS ?
						num - i : BATCH_ARENAS,
			      memory);
}

/* ---- threads ---- */

enum verdict { OUTSIDE, INSIDE, ASK_STACK, ASK_STACK_IN_CALL };

static bool is_memory_call(uint64_t number)
{
	switch (number) {
	case SYS_mmap:
	case SYS_munmap:
	case SYS_mremap:
	case SYS_mprotect:
	case SYS_madvise:
	case SYS_brk:
		return true;
	default:
		return false;
	}
}

static enum verdict judge(const struct hf_allocator_watch *watch,
			  const struct hf_thread *thread)
{
	const struct user_regs_struct *regs = &thread->regs;
	bool in_module = false, in_call = (int64_t)regs->orig_rax >= 0;

	for (size_t i = 0; i < watch->places.num; i++) {
		const struct hf_allocator_place *place =
			&watch->places.data[i];

		if (regs->rip - place->code.start <
		    place->code.end - place->code.start)
			return INSIDE;
		in_module |= regs->rip - place->module.start <
			     place->module.end - place->module.start;
	}
	/* Of such a thread the kernel shows no more than rip and rsp. */
	if (thread->stop_how == HF_STOP_PARTIAL)
		return OUTSIDE;
	if (in_call && regs->orig_rax == SYS_futex)
		return is_lock(watch, regs->rdi) ? INSIDE : OUTSIDE;
	if (in_call)
		return is_memory_call(regs->orig_rax) ? ASK_STACK_IN_CALL :
							OUTSIDE;
	return in_module ? ASK_STACK : OUTSIDE;
}

static bool returns_to_allocator(const struct hf_allocator_watch *watch,
				 uint64_t word)
{
	for (size_t i = 0; i < watch->places.num; i++)
		if (hf_allocator_place_returns_to(&watch->places.data[i],
						  word))
			return true;
	return false;
}

static void count(const struct hf_thread *threads, size_t thread,
		  bool *is_inside, struct hf_allocator_findings *ret)
{
	if (is_inside)
		is_inside[thread] = true;
	if (ret->num_inside++ == 0)
		ret->tid_inside = threads[thread].tid;
}

static void look_at_stacks(struct hf_allocator_watch *watch, size_t num,
			   const struct hf_allocator_memory *memory,
			   const struct hf_thread *threads, bool *is_inside,
			   struct hf_allocator_findings *ret)
{
	for (size_t i = 0; i < num; i++) {
		uint64_t sp = threads[watch->tops[i].thread].regs.rsp &
			      ~UINT64_C(7);

		/* To the end of the page at least: more may not be there. */
		watch->ranges[i].start = sp;
		watch->ranges[i].end = sp + STACK_BYTES;
		if (sp >> 47 != 0)
			watch->ranges[i].end = sp;
	}
	for (size_t done = 0; done < num;) {
		size_t got = memory->read(memory->arg, &watch->ranges[done],
					  num - done, watch->stacks) / 8;
		size_t at = 0;

		do {
			const struct stack_top *top = &watch->tops[done];
			size_t words = (watch->ranges[done].end -
					watch->ranges[done].start) / 8;
			size_t left = got - at < words ? got - at : words;
			bool inside = false;

			for (size_t w = 0; w < left && !inside; w++) {
				if (w > 0 && !top->in_call)
					break;
				inside = returns_to_allocator(
					watch, watch->stacks[at + w]);
			}
			if (inside)
				count(threads, top->thread, is_inside, ret);
			at += left;
			done++;
			if (left < words)
				break; /* the rest of it is unreadable */
		} while (done < num);
	}
}

static void look_at_threads(struct hf_allocator_watch *watch,
			    const struct hf_allocator_memory *memory,
			    const struct hf_thread *threads,
			    size_t num_threads, bool *is_inside,
			    struct hf_allocator_findings *ret)
{
	size_t num = 0;

	for (size_t i = 0; i < num_threads; i++) {
		enum verdict verdict = judge(watch, &threads[i]);

		if (is_inside)
			is_inside[i] = false;
		if (verdict == INSIDE)
			count(threads, i, is_inside, ret);
		if (verdict != ASK_STACK && verdict != ASK_STACK_IN_CALL)
			continue;
		watch->tops[num++] = (struct stack_top){
			i, verdict == ASK_STACK_IN_CALL
		};
		if (num == BATCH_STACKS) {
			look_at_stacks(watch, num, memory, threads, is_inside,
				       ret);
			num = 0;
		}
	}
	look_at_stacks(watch, num, memory, threads, is_inside, ret);
}

void hf_allocator_watch_look(struct hf_allocator_watch *watch,
			     const struct hf_allocator_memory *memory,
			     const struct hf_thread *threads,
			     size_t num_threads, bool *is_inside,
			     struct hf_allocator_findings *ret)
{
	*ret = (struct hf_allocator_findings){ 0 };
	look_at_arenas(watch, memory);
	ret->num_locked = (uint32_t)watch->locked.num;
	look_at_threads(watch, memory, threads, num_threads, is_inside, ret);
}

const uint64_t *
hf_allocator_watch_locked(const struct hf_allocator_watch *watch,
			  size_t *num_ret)
{
	*num_ret = watch->locked.num;
	return watch->locked.data;
}

/* ---- images ---- */

static size_t read_image(void *arg, const struct hf_range *ranges,
			 size_t num_ranges, void *buf)
{
	const struct hf_image *const *image = arg;
	size_t done = 0;

	for (size_t i = 0; i < num_ranges; i++) {
		size_t want = ranges[i].end - ranges[i].start;
		size_t got = hf_image_read_some(*image, ranges[i].start,
						(char *)buf + done, want);

		done += got;
		if (got < want)
			break;
	}
	return done;
}

struct hf_error *
hf_allocator_look_at_image(const struct hf_image *image,
			   const struct hf_heap_reader_ops *ops,
			   const struct hf_progress *progress,
			   bool *is_known_ret, bool *is_inside,
			   struct hf_allocator_findings *ret)
{
	const struct hf_allocator_memory memory = { read_image, &image };
	HF_AUTO(hf_allocator_watch) struct hf_allocator_watch *watch = NULL;
	hf_allocator_places places = { 0 };
	size_t num;
	const struct hf_thread *threads = hf_image_threads(image, &num);
	struct hf_error *err;

	*is_known_ret = false;
	if (!ops->places)
		return NULL;
	err = ops->places(image, progress, &places);
	if (err) {
		hf_allocator_places_deinit(&places);
		return err;
	}
	err = hf_allocator_watch_create(&watch);
	if (err) {
		hf_allocator_places_deinit(&places);
		return err;
	}
	err = hf_allocator_watch_set(watch, &places);
	if (!err)
		err = hf_allocator_watch_find_arenas(watch, &memory);
	if (err)
		return err;
	*is_known_ret = hf_allocator_watch_num_places(watch) != 0;
	hf_allocator_watch_look(watch, &memory, threads, num, is_inside, ret);
	return NULL;
}
