/* Stacks: the frames of every thread of an image.
 * SPDX-License-Identifier: MIT */
#include "indexer/stacks/stacks.h"

#include <string.h>

#include "indexer/stacks/dwfl_image.h"
#include "indexer/stacks/frame_names.h"
#include "indexer/stacks/pc_table.h"
#include "indexer/stacks/unwind.h"
#include "util/array.h"

enum { MAX_ALL_FRAMES = 16 * 1024 * 1024 };

/* One name of an address; those of one address follow each other, innermost
 * first, and the last is not inlined. */
struct kept_name {
	const char *function, *file;
	uint32_t line;
	bool is_inlined;
};

struct finder {
	const struct hf_image *image;
	struct hf_dwfl_image dwfl_image;
	struct hf_unwinder *unwinder;
	struct hf_raw_frames raw;
	struct hf_stacks *stacks;
	HF_ARRAY(struct hf_frame) frames;
	HF_ARRAY(char *) texts;
	HF_ARRAY(struct kept_name) names;
	struct hf_pc_table first_name;  /* of each pc that was asked for */
};

static void finder_deinit(struct finder *finder)
{
	hf_unwinder_destroy(finder->unwinder);
	hf_dwfl_image_deinit(&finder->dwfl_image);
	hf_array_deinit(&finder->raw);
	hf_array_deinit(&finder->frames);
	for (size_t i = 0; i < finder->texts.num; i++)
		free(finder->texts.data[i]);
	hf_array_deinit(&finder->texts);
	hf_array_deinit(&finder->names);
	hf_pc_table_deinit(&finder->first_name);
}

/* Takes the text. */
static struct hf_error *keep_text(struct finder *finder, char **text,
				  const char **ret)
{
	struct hf_error *err;

	*ret = *text;
	if (!*text)
		return NULL;
	err = hf_array_append(&finder->texts, *text);
	if (!err)
		*text = NULL;
	return err;
}

static struct hf_error *keep_names(struct finder *finder,
				   struct hf_frame_names *names)
{
	struct hf_error *err = NULL;

	for (size_t i = 0; !err && i < names->num; i++) {
		struct hf_frame_name *name = &names->names[i];
		struct kept_name kept = { .line = name->line,
					  .is_inlined = i + 1 < names->num };

		err = keep_text(finder, &name->function, &kept.function);
		if (!err)
			err = keep_text(finder, &name->file, &kept.file);
		if (!err)
			err = hf_array_append(&finder->names, kept);
	}
	return err;
}

/* Names of an address, looked up once.
 * @param ret index of the first in finder->names. */
static struct hf_error *find_names(struct finder *finder, uint64_t pc,
				   uint32_t *ret)
{
	const uint32_t *known = hf_pc_table_find(&finder->first_name, pc);
	struct hf_frame_names *names;
	struct hf_error *err;

	if (known) {
		*ret = *known;
		return NULL;
	}
	names = malloc(sizeof(*names));
	if (!names)
		return &hf_enomem;
	*ret = (uint32_t)finder->names.num;
	err = hf_frame_names_find(finder->dwfl_image.dwfl, pc, names);
	if (!err) {
		err = keep_names(finder, names);
		hf_frame_names_deinit(names);
	}
	free(names);
	return err ? err : hf_pc_table_add(&finder->first_name, pc, *ret);
}

static struct hf_error *add_names(struct finder *finder, uint32_t thread,
				  const struct hf_raw_frame *raw, uint64_t cfa,
				  uint32_t *level)
{
	uint64_t pc = raw->pc - raw->is_caller;
	const struct hf_module *module =
		hf_image_find_module(finder->image, pc);
	size_t num_modules;
	const struct hf_module *modules =
		hf_image_modules(finder->image, &num_modules);
	uint32_t at = 0;
	struct hf_error *err = find_names(finder, pc, &at);
	bool is_last = false;

	for (; !err && !is_last; at++) {
		const struct kept_name *name = &finder->names.data[at];
		struct hf_frame frame = {
			.thread = thread,
			.level = (*level)++,
			.pc = raw->pc,
			.sp = raw->sp,
			.cfa = cfa,
			.function = name->function,
			.file = name->file,
			.line = name->line,
			.module_id = module ? (uint32_t)(module - modules) :
					      HF_NO_MODULE,
			.how = name->is_inlined ? HF_FRAME_INLINE : raw->how,
			.is_inlined = name->is_inlined,
			.is_signal = raw->is_signal,
		};

		is_last = !name->is_inlined;
		err = hf_array_append(&finder->frames, frame);
	}
	return err;
}

static struct hf_error *find_thread(struct finder *finder,
				    const struct hf_thread *thread,
				    uint32_t id)
{
	struct hf_raw_frames *raw = &finder->raw;
	uint32_t level = 0;
	struct hf_error *err;

	err = hf_unwind_thread(finder->unwinder, thread, raw,
			       &finder->stacks->ends[id]);
	for (size_t i = 0; i < raw->num && !err; i++) {
		/* The frame ends where the stack pointer of its caller is. */
		uint64_t cfa = i + 1 < raw->num ? raw->data[i + 1].sp : 0;

		if (finder->frames.num >= MAX_ALL_FRAMES) {
			finder->stacks->ends[id] = HF_STACK_TOO_DEEP;
			break;
		}
		err = add_names(finder, id, &raw->data[i], cfa, &level);
	}
	return err;
}

static struct hf_error *find_all(struct finder *finder,
				 const struct hf_progress *progress)
{
	size_t num;
	const struct hf_thread *threads = hf_image_threads(finder->image,
							   &num);
	struct hf_error *err;

	finder->stacks->ends = calloc(num + 1, sizeof(*finder->stacks->ends));
	finder->stacks->num_threads = num;
	if (!finder->stacks->ends)
		return &hf_enomem;
	err = hf_dwfl_image_init(finder->image, &finder->dwfl_image);
	if (!err)
		err = hf_unwinder_create(finder->image,
					 finder->dwfl_image.dwfl,
					 &finder->unwinder);
	for (size_t i = 0; i < num && !err; i++) {
		err = find_thread(finder, &threads[i], (uint32_t)i);
		if (!err)
			err = hf_progress_update(progress, "stacks", i + 1,
						 num);
	}
	return err;
}

struct hf_error *hf_stacks_find(const struct hf_image *image,
				const struct hf_progress *progress,
				struct hf_stacks *ret)
{
	struct hf_stacks stacks = { 0 };
	struct finder finder = { .image = image, .stacks = &stacks };
	struct hf_error *err = find_all(&finder, progress);

	if (!err) {
		stacks.frames = finder.frames.data;
		stacks.num_frames = finder.frames.num;
		stacks.texts = finder.texts.data;
		stacks.num_texts = finder.texts.num;
		memset(&finder.frames, 0, sizeof(finder.frames));
		memset(&finder.texts, 0, sizeof(finder.texts));
		*ret = stacks;
	} else {
		free(stacks.ends);
	}
	finder_deinit(&finder);
	return err;
}

void hf_stacks_deinit(struct hf_stacks *stacks)
{
	for (size_t i = 0; i < stacks->num_texts; i++)
		free(stacks->texts[i]);
	free(stacks->texts);
	free(stacks->frames);
	free(stacks->ends);
	memset(stacks, 0, sizeof(*stacks));
}
