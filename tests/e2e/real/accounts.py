"""Programs that ask malloc for its account of themselves, then stand still.

SPDX-License-Identifier: MIT

The account must be the same after it was asked for. So everything is made
beforehand, some rounds warm up what is allocated at the first use, and from the
account to the wait for input there are only calls into C that need the same
memory each time.
"""

# mallinfo2() returns a struct of ten words: by the x86-64 ABI that is a
# function with the address of the result as its first argument. Every function
# gets three words and returns nothing, so that each call needs the same
# objects of ctypes: while the program waits in read() as many are there as
# there were in mallinfo2().
#
# The heap has something of everything: chunks of all sizes with gaps between
# them, arenas of other threads, chunks with their own mapping, full caches.
PYTHON = r'''
import ctypes, os, sys, threading

libc = ctypes.CDLL(None)
def function(name):
    found = libc[name]
    found.argtypes, found.restype = [ctypes.c_size_t] * 3, None
    return found
mallinfo2, malloc_info, rewind, fflush, read, write = map(function, (
    "mallinfo2", "malloc_info", "rewind", "fflush", "read", "write"))

def fill(kept):
    for number in range(3000):
        kept.append(bytes(number * 7 % 1500))
    del kept[::2]
    for number in range(300):
        kept.append({"name %d" % number: [number] * (number % 5)})
    kept.append(bytes(3 << 20))
    kept.append(bytes(300000))

kept, others = [], [[] for _ in range(3)]
stay, ready = threading.Lock(), threading.Barrier(4)
stay.acquire()
def work(mine):
    fill(mine)
    ready.wait()
    stay.acquire()
for mine in others:
    threading.Thread(target=work, args=(mine,), daemon=True).start()
fill(kept)
ready.wait()

info = ctypes.create_string_buffer(10 * 8)
line = ctypes.create_string_buffer(1)
buffer = ctypes.create_string_buffer(1 << 18)
libc.fopen.restype = ctypes.c_void_p
out = libc.fopen(ctypes.c_char_p(sys.argv[1].encode()), b"w")
libc.setvbuf(ctypes.c_void_p(out), buffer, 0, ctypes.c_size_t(len(buffer)))
info_at, line_at = ctypes.addressof(info), ctypes.addressof(line)

def account(out, info_at, where, source, line_at, num_asked):
    while num_asked:
        rewind(out, 0, 0)
        malloc_info(0, out, 0)
        fflush(out, 0, 0)
        mallinfo2(info_at, 0, 0)
        write(where, info_at, 80)
        read(source, line_at, 1)
        num_asked -= 1

nowhere = os.open("/dev/null", os.O_RDWR)
account(out, info_at, nowhere, nowhere, line_at, 200)
account(out, info_at, 1, 0, line_at, 1)
'''

# Perl has no ctypes, but it can call a function without arguments of any
# library as if it were an extension. malloc_stats() writes to standard error.
PERL = r'''
use DynaLoader;
my $libc = DynaLoader::dl_load_file("libc.so.6");
DynaLoader::dl_install_xsub("main::malloc_stats",
    DynaLoader::dl_find_symbol($libc, "malloc_stats"));
open(STDERR, ">", shift) or die;
my %store;
$store{$_} = { name => "x" x ($_ % 900), tags => [1 .. $_ % 20] } for 1 .. 5000;
delete $store{$_ * 3} for 1 .. 1500;
my $big = "y" x (3 << 20);
my $line = " " x 16;
open(my $nothing, "<", "/dev/null");
for my $round (1 .. 20) {
    malloc_stats();
    syswrite(STDOUT, ".");
    sysread($round < 20 ? $nothing : STDIN, $line, 1);
}
'''
