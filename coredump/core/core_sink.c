/* Core sink: bytes and holes, one after the other, into a file.
 * SPDX-License-Identifier: MIT */
#include "coredump/core/core_sink.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <zstd.h>

/* A core is as large as a heap. Left to itself, the kernel would fill its page
 * cache with it and drop what the machine's programs need: so every piece is
 * written out as soon as it is complete, and dropped when the next one is. */

enum {
	CACHE_PIECE_BYTES = 32 * 1024 * 1024,
	/* How often the free space is looked at. */
	CHECK_BYTES = 16 * 1024 * 1024,
	MAX_WORKERS = 64,
};

struct hf_core_sink {
	int fd;
	const char *name;
	struct hf_core_sink_options options;
	uint64_t pos;        /* length of the file so far, with holes */
	uint64_t written;    /* bytes of it that are no holes */
	uint64_t flushed;    /* up to here it is on its way to the disk */
	uint64_t dropped;    /* up to here out of the page cache */
	uint64_t checked;    /* of written: when space was last looked at */
	ZSTD_CCtx *zstd;     /* NULL: plain */
	void *out;           /* of zstd */
	size_t out_bytes;
};

static struct hf_error *no_space(const struct hf_core_sink *sink,
				 const char *why)
{
	return hf_error_cause(hf_error_create(HF_ERROR_NO_SPACE,
					      "no room for '%s'", sink->name),
			      "%s", why);
}

/* Before `len` more bytes. */
static struct hf_error *check_space(struct hf_core_sink *sink, size_t len)
{
	const struct hf_core_sink_options *options = &sink->options;
	struct statvfs fs;

	if (options->max_bytes && sink->pos + len > options->max_bytes)
		return hf_error_fix(no_space(sink, "it would be larger than "
					     "the limit that was given"),
				    "raise --max-size, leave more out "
				    "(--core-filter), or compress it "
				    "(--compress zstd)");
	if (sink->written - sink->checked < CHECK_BYTES && sink->written)
		return NULL;
	sink->checked = sink->written;
	if (!options->keep_free_bytes || fstatvfs(sink->fd, &fs) < 0)
		return NULL;
	if ((uint64_t)fs.f_bavail * fs.f_frsize >=
	    options->keep_free_bytes + len)
		return NULL;
	return hf_error_fix(no_space(sink, "less than what is to be kept free "
				     "would be left on the file system"),
			    "write it elsewhere, or lower --keep-free");
}

/* Write out, and forget, what is complete. Errors show in the fsync. */
static void relieve_cache(struct hf_core_sink *sink, bool all)
{
	uint64_t end = all ? sink->pos : sink->pos / CACHE_PIECE_BYTES *
						 CACHE_PIECE_BYTES;

	if (end <= sink->flushed)
		return;
	sync_file_range(sink->fd, (off_t)sink->flushed,
			(off_t)(end - sink->flushed), SYNC_FILE_RANGE_WRITE);
	if (sink->flushed > sink->dropped) {
		off_t start = (off_t)sink->dropped;
		off_t len = (off_t)(sink->flushed - sink->dropped);

		sync_file_range(sink->fd, start, len,
				SYNC_FILE_RANGE_WAIT_BEFORE |
					SYNC_FILE_RANGE_WRITE |
					SYNC_FILE_RANGE_WAIT_AFTER);
		posix_fadvise(sink->fd, start, len, POSIX_FADV_DONTNEED);
		sink->dropped = sink->flushed;
	}
	sink->flushed = end;
}

static struct hf_error *write_out(struct hf_core_sink *sink, const void *bytes,
				  size_t len)
{
	struct hf_error *err = check_space(sink, len);

	while (!err && len) {
		ssize_t n = pwrite(sink->fd, bytes, len, (off_t)sink->pos);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EFBIG)
			return no_space(sink, "the largest file that the file "
					"system or RLIMIT_FSIZE allows");
		if (n <= 0)
			return hf_error_os(n < 0 ? errno : ENOSPC,
					   "cannot write '%s'", sink->name);
		sink->pos += (uint64_t)n;
		sink->written += (uint64_t)n;
		bytes = (const char *)bytes + n;
		len -= (size_t)n;
	}
	if (!err)
		relieve_cache(sink, false);
	return err;
}

static struct hf_error *zstd_error(const struct hf_core_sink *sink, size_t code)
{
	return hf_error_create(HF_ERROR_OS, "cannot compress '%s': %s",
			       sink->name, ZSTD_getErrorName(code));
}

static struct hf_error *compress(struct hf_core_sink *sink, const void *bytes,
				 size_t len, ZSTD_EndDirective end)
{
	ZSTD_inBuffer in = { bytes, len, 0 };
	size_t left;

	do {
		ZSTD_outBuffer out = { sink->out, sink->out_bytes, 0 };
		struct hf_error *err;

		left = ZSTD_compressStream2(sink->zstd, &out, &in, end);
		if (ZSTD_isError(left))
			return zstd_error(sink, left);
		err = write_out(sink, sink->out, out.pos);
		if (err)
			return err;
	} while (in.pos < in.size || (end == ZSTD_e_end && left));
	return NULL;
}

static struct hf_error *start_zstd(struct hf_core_sink *sink)
{
	long num_cpus = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned workers = sink->options.num_workers;
	size_t code;

	if (!workers)
		workers = num_cpus > 0 ? (unsigned)num_cpus : 1;
	if (workers > MAX_WORKERS)
		workers = MAX_WORKERS;
	sink->zstd = ZSTD_createCCtx();
	sink->out_bytes = ZSTD_CStreamOutSize();
	sink->out = malloc(sink->out_bytes);
	if (!sink->zstd || !sink->out)
		return &hf_enomem;
	code = ZSTD_CCtx_setParameter(sink->zstd, ZSTD_c_compressionLevel,
				      sink->options.zstd_level);
	if (!ZSTD_isError(code))
		code = ZSTD_CCtx_setParameter(sink->zstd, ZSTD_c_checksumFlag,
					      1);
	if (ZSTD_isError(code))
		return zstd_error(sink, code);
	/* A library without threads refuses: then we compress ourselves. */
	ZSTD_CCtx_setParameter(sink->zstd, ZSTD_c_nbWorkers, (int)workers);
	return NULL;
}

struct hf_error *hf_core_sink_create(int fd, const char *name,
				     const struct hf_core_sink_options *options,
				     struct hf_core_sink **ret)
{
	HF_AUTO(hf_core_sink) struct hf_core_sink *sink =
		calloc(1, sizeof(*sink));
	struct hf_error *err = NULL;

	if (!sink)
		return &hf_enomem;
	sink->fd = fd;
	sink->name = name;
	sink->options = *options;
	if (options->zstd_level)
		err = start_zstd(sink);
	if (err)
		return err;
	*ret = HF_TAKE(sink);
	return NULL;
}

void hf_core_sink_destroy(struct hf_core_sink *sink)
{
	if (!sink)
		return;
	ZSTD_freeCCtx(sink->zstd);
	free(sink->out);
	free(sink);
}

struct hf_error *hf_core_sink_put(struct hf_core_sink *sink, const void *bytes,
				  size_t len)
{
	return sink->zstd ? compress(sink, bytes, len, ZSTD_e_continue) :
			    write_out(sink, bytes, len);
}

struct hf_error *hf_core_sink_skip(struct hf_core_sink *sink, uint64_t len)
{
	static const char zeros[64 * 1024];
	struct hf_error *err = NULL;

	if (!sink->zstd) {
		if (sink->options.max_bytes &&
		    sink->pos + len > sink->options.max_bytes)
			return check_space(sink, len);
		sink->pos += len;
		return NULL;
	}
	while (!err && len) {
		size_t n = len < sizeof(zeros) ? (size_t)len : sizeof(zeros);

		err = compress(sink, zeros, n, ZSTD_e_continue);
		len -= n;
	}
	return err;
}

struct hf_error *hf_core_sink_finish(struct hf_core_sink *sink,
				     uint64_t *file_bytes_ret,
				     uint64_t *disk_bytes_ret)
{
	struct hf_error *err = NULL;
	struct stat st;

	if (sink->zstd)
		err = compress(sink, NULL, 0, ZSTD_e_end);
	/* The file may end in a hole. */
	if (!err && ftruncate(sink->fd, (off_t)sink->pos) < 0)
		err = hf_error_os(errno, "cannot set the size of '%s'",
				  sink->name);
	if (err)
		return err;
	relieve_cache(sink, true);
	*file_bytes_ret = sink->pos;
	*disk_bytes_ret = sink->written;
	if (fstat(sink->fd, &st) == 0 && (uint64_t)st.st_blocks * 512 <
						 sink->written)
		*disk_bytes_ret = (uint64_t)st.st_blocks * 512;
	return NULL;
}
