/* Whole-file reads and writes.
 * SPDX-License-Identifier: MIT */
#include "util/file.h"

#include <fcntl.h>

#include "util/array.h"

struct hf_error *hf_read_fd(int fd, const char *name, char **ret,
			    size_t *len_ret)
{
	HF_ARRAY(char) text = { 0 };
	struct hf_error *err = NULL;
	ssize_t n;

	do {
		/* /proc/PID/maps is cut at a line only with a big buffer. */
		err = hf_array_reserve(&text, 64 * 1024);
		if (err)
			goto fail;
		n = read(fd, text.data + text.num,
			 text.capacity - text.num - 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			err = hf_error_os(errno, "cannot read '%s'", name);
			goto fail;
		}
		text.num += (size_t)n;
	} while (n != 0);
	text.data[text.num] = '\0';
	*ret = text.data;
	if (len_ret)
		*len_ret = text.num;
	return NULL;
fail:
	hf_array_deinit(&text);
	return err;
}

struct hf_error *hf_read_file(const char *path, char **ret, size_t *len_ret)
{
	HF_AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return hf_error_os(errno, "cannot open '%s'", path);
	return hf_read_fd(fd, path, ret, len_ret);
}

struct hf_error *hf_write_all(int fd, const char *name, const void *buf,
			      size_t len)
{
	const char *bytes = buf;

	while (len > 0) {
		ssize_t n = write(fd, bytes, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return hf_error_os(errno, "cannot write '%s'", name);
		bytes += n;
		len -= (size_t)n;
	}
	return NULL;
}
