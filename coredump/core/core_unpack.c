/* Core unpack: a compressed core into a file without a name.
 * SPDX-License-Identifier: MIT */
#include "coredump/core/core_unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "util/cleanup.h"

enum {
	PAGE_BYTES = 4096,
	OUT_BYTES = 1024 * 1024,      /* a multiple of pages */
	WINDOW_LOG_MAX = 31,          /* --long=31 */
};

static const uint8_t zstd_magic[] = { 0x28, 0xb5, 0x2f, 0xfd };

struct unpacker {
	int in_fd, out_fd;
	const char *name;
	ZSTD_DCtx *zstd;
	uint8_t *in, *out;
	size_t in_bytes;
	size_t filled;     /* of out */
	uint64_t pos;      /* in the unpacked file, where out begins */
	uint64_t size, done; /* of the packed file */
};

static inline void hf_auto_unpacker(void *ptr)
{
	struct unpacker *unpacker = *(struct unpacker **)ptr;

	ZSTD_freeDCtx(unpacker->zstd);
	free(unpacker->in);
	free(unpacker->out);
	if (unpacker->out_fd >= 0)
		close(unpacker->out_fd);
}

bool hf_core_is_packed(int fd)
{
	uint8_t magic[sizeof(zstd_magic)];

	return pread(fd, magic, sizeof(magic), 0) == (ssize_t)sizeof(magic) &&
	       !memcmp(magic, zstd_magic, sizeof(magic));
}

static struct hf_error *open_scratch(const char *dir, int *ret)
{
	const char *tmp = getenv("TMPDIR");
	char path[4096];
	int fd;

	if (!dir)
		dir = tmp && tmp[0] == '/' ? tmp : "/var/tmp";
	fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR ||
		       errno == ENOENT)) {
		snprintf(path, sizeof(path), "%s/.heapfork-core-XXXXXX", dir);
		fd = mkostemp(path, O_CLOEXEC);
		if (fd >= 0)
			unlink(path);
	}
	if (fd < 0)
		return hf_error_fix(
			hf_error_os(errno, "cannot make a scratch file in "
				    "'%s'", dir),
			"set TMPDIR to a directory with room for the "
			"unpacked core");
	*ret = fd;
	return NULL;
}

static bool is_zero(const uint8_t *bytes, size_t len)
{
	return !bytes[0] && !memcmp(bytes, bytes + 1, len - 1);
}

/* Write the full pages of out, or all of it at the end. */
static struct hf_error *flush(struct unpacker *unpacker)
{
	for (size_t at = 0; at < unpacker->filled;) {
		size_t len = unpacker->filled - at;
		ssize_t n;

		if (len > PAGE_BYTES)
			len = PAGE_BYTES;
		if (is_zero(unpacker->out + at, len)) {
			at += len;
			continue;
		}
		/* As long as there are no zeros. */
		while (at + len < unpacker->filled) {
			size_t more = unpacker->filled - at - len;

			if (more > PAGE_BYTES)
				more = PAGE_BYTES;
			if (is_zero(unpacker->out + at + len, more))
				break;
			len += more;
		}
		n = pwrite(unpacker->out_fd, unpacker->out + at, len,
			   (off_t)(unpacker->pos + at));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return hf_error_os(n < 0 ? errno : ENOSPC,
					   "cannot unpack '%s'",
					   unpacker->name);
		at += (size_t)n;
	}
	unpacker->pos += unpacker->filled;
	unpacker->filled = 0;
	return NULL;
}

/* One buffer of packed bytes. @param left_ret 0 at the end of a frame. */
static struct hf_error *decompress(struct unpacker *unpacker, size_t len,
				   size_t *left_ret)
{
	ZSTD_inBuffer in = { unpacker->in, len, 0 };
	ZSTD_outBuffer out;

	do {
		struct hf_error *err = NULL;

		out = (ZSTD_outBuffer){ unpacker->out, OUT_BYTES,
					unpacker->filled };
		*left_ret = ZSTD_decompressStream(unpacker->zstd, &out, &in);
		unpacker->filled = out.pos;
		if (ZSTD_isError(*left_ret))
			return hf_bad_data("'%s' is damaged %" PRIu64
					   " bytes from its start: %s",
					   unpacker->name,
					   unpacker->done + in.pos,
					   ZSTD_getErrorName(*left_ret));
		if (out.pos == out.size)
			err = flush(unpacker);
		if (err)
			return err;
	} while (in.pos < in.size || out.pos == out.size);
	return NULL;
}

static struct hf_error *unpack_all(struct unpacker *unpacker,
				   const struct hf_progress *progress)
{
	size_t left = 0;

	for (;;) {
		ssize_t n = pread(unpacker->in_fd, unpacker->in,
				  unpacker->in_bytes, (off_t)unpacker->done);
		struct hf_error *err;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return hf_error_os(errno, "cannot read '%s'",
					   unpacker->name);
		if (n == 0)
			break;
		err = decompress(unpacker, (size_t)n, &left);
		unpacker->done += (uint64_t)n;
		if (!err)
			err = hf_progress_update(progress, "unpack",
						 unpacker->done,
						 unpacker->size);
		if (err)
			return err;
	}
	if (left)
		return hf_bad_data("'%s' ends too early: the compressed core "
				   "is truncated", unpacker->name);
	return NULL;
}

static struct hf_error *finish(struct unpacker *unpacker)
{
	struct hf_error *err = flush(unpacker);

	if (!err && ftruncate(unpacker->out_fd, (off_t)unpacker->pos) < 0)
		err = hf_error_os(errno, "cannot unpack '%s'", unpacker->name);
	return err;
}

struct hf_error *hf_core_unpack(int fd, const char *name, const char *dir,
				bool partial,
				const struct hf_progress *progress,
				int *fd_ret)
{
	struct unpacker storage = { .in_fd = fd, .out_fd = -1, .name = name };
	HF_AUTO(unpacker) struct unpacker *unpacker = &storage;
	struct hf_error *err;
	struct stat st;

	if (fstat(fd, &st) == 0)
		unpacker->size = (uint64_t)st.st_size;
	unpacker->in_bytes = ZSTD_DStreamInSize();
	unpacker->in = malloc(unpacker->in_bytes);
	unpacker->out = malloc(OUT_BYTES);
	unpacker->zstd = ZSTD_createDCtx();
	if (!unpacker->in || !unpacker->out || !unpacker->zstd)
		return &hf_enomem;
	ZSTD_DCtx_setParameter(unpacker->zstd, ZSTD_d_windowLogMax,
			       WINDOW_LOG_MAX);
	err = open_scratch(dir, &unpacker->out_fd);
	if (err)
		return err;
	err = unpack_all(unpacker, progress);
	if (err && err->code == HF_ERROR_BAD_DATA && partial) {
		hf_error_ignore(err);
		err = NULL;
	} else if (err && err->code == HF_ERROR_BAD_DATA) {
		err = hf_error_fix(err, "use --partial to look at what is "
				   "there");
	}
	if (!err)
		err = finish(unpacker);
	if (err)
		return err;
	*fd_ret = unpacker->out_fd;
	unpacker->out_fd = -1;
	return NULL;
}
