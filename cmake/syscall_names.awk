# Make C of the macros of <asm/unistd_64.h>: see indexer/syscall_name.h.
# SPDX-License-Identifier: MIT
#
# cc -E -dM FILE | awk -f syscall_names.awk > syscall_names.c
#
# A line is "#define __NR_read 0".

$1 == "#define" && $2 ~ /^__NR_[a-z]/ && $3 ~ /^[0-9]+$/ {
	entries = entries "\t[" $3 "] = \"" substr($2, 6) "\",\n"
	num++
}

END {
	# The first versions for x86-64 had 250 of them.
	if (num < 250) {
		print "only " num " system calls in <asm/unistd_64.h>" \
			> "/dev/stderr"
		exit 1
	}
	print "/* Made from <asm/unistd_64.h> by cmake/syscall_names.awk. */"
	print "#include \"indexer/syscall_name.h\"\n"
	print "static const char *const names[] = {\n" entries "};\n"
	print "const char *hf_syscall_name(uint64_t number)\n{"
	print "\treturn number < sizeof(names) / sizeof(names[0]) ?"
	print "\t\t       names[number] : NULL;\n}"
}
