#!/bin/bash
# The real binary: exit codes, formats, limits, hostile files and names.
# SPDX-License-Identifier: MIT
#
# usage: cli.sh HEAPFORK WRITE_HEAP MAN
set -u
heapfork=$1 write_heap=$2 man=$3
dir=$(mktemp -d /tmp/hf-cli-XXXXXX)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
failed=0

fail() {
	echo "FAILED: $*"
	sed 's/^/  stdout: /' out
	sed 's/^/  stderr: /' err
	failed=1
}

# run CODE ARGUMENTS...: stdout in file out, stderr in file err.
run() {
	local expected=$1 code
	shift
	command="heapfork $*"
	"$heapfork" "$@" >out 2>err </dev/null
	code=$?
	[ $code = "$expected" ] || fail "$command: exit code $code, not $expected"
}

out_has() { grep -qF -- "$1" out || fail "$command: no '$1' in the output"; }
err_has() { grep -qF -- "$1" err || fail "$command: no '$1' in the errors"; }
out_lines() {
	[ "$(wc -l <out)" = "$1" ] || fail "$command: not $1 lines of output"
}
no_err() { [ ! -s err ] || fail "$command: unexpected errors"; }
no_out() { [ ! -s out ] || fail "$command: unexpected output"; }
# Bytes that a terminal would act on.
no_control() {
	! grep -qP '[\x00-\x08\x0b-\x1f\x7f]' out err ||
		fail "$command: control characters"
}

"$write_heap" a.heap || exit 1

# help and version
run 0 help; out_has "Verbs:"; no_err
run 0 --help; out_has "Verbs:"
run 0 -h; out_has "usage: heapfork VERB"; out_has "snapshot"; no_err
[ "$(wc -l <out)" -le 24 ] || fail "$command: more than one screen"
run 0 version; out_has "snapshot format"; no_err
run 0 --version; out_has "sqlite"
run 0 version --json
out_has '{"part": "sqlite"'
verbs=$("$heapfork" help | sed -n '/^Verbs:/,/^$/s/^  \([a-z]*\) .*/\1/p')
[ "$(wc -w <<<"$verbs")" -ge 9 ] || { command=help; fail "verbs: $verbs"; }
for verb in $verbs; do
	run 0 help "$verb"; out_has "heapfork $verb"; no_err
	run 0 "$verb" --help; out_has "heapfork $verb"
	long=$(wc -l <out)
	run 0 "$verb" -h; out_has "heapfork $verb"; out_has "--help"; no_err
	# One screen; but a capture has many options.
	lines=24
	case $verb in snapshot | run | doctor) lines=64 ;; esac
	[ "$(wc -l <out)" -le "$lines" ] ||
		fail "$command: more than $lines lines"
	[ "$(wc -l <out)" -lt "$long" ] || fail "$command: not shorter"
	run 2 "$verb" --no-such-option; err_has "heapfork $verb"; no_out
done

# Every verb and every option is in its manual page.
for verb in $verbs; do
	case $verb in
	help | version) page=$man/heapfork.1 ;;
	*) page=$man/heapfork-$verb.1 ;;
	esac
	[ -e "$page" ] || { command="man $verb"; fail "no $page"; continue; }
	pages=("$page" "$man/heapfork.1")
	# How a capture is made is told once.
	case $verb in run | doctor) pages+=("$man/heapfork-snapshot.1") ;; esac
	run 0 help "$verb"
	while read -r option; do
		cat "${pages[@]}" | grep -qE "Fl .*${option#-}" ||
			fail "$command: $option is not in $page"
	done < <(sed -nE 's/^ +(-., )?(--[a-z-]+).*/\2/p' out)
done
run 0 help
for verb in $verbs; do
	grep -q "^\.It Cm $verb" "$man/heapfork.1" ||
		fail "heapfork.1 has no $verb"
done

# 2: usage
run 2; err_has "heapfork help"; no_out
run 2 censu; err_has "did you mean 'heapfork census'?"
run 2 help censu; err_has "did you mean"
run 2 help nosuch; err_has "fix: heapfork help"
run 2 census; err_has "which snapshot"
run 2 census a.heap b.heap
run 2 census --limit x a.heap; err_has "--limit"
run 2 census --limit -1 a.heap
run 2 census --limit 99999999999999999999 a.heap
run 2 census --format xml a.heap; err_has "table, csv or json"
run 2 retainers a.heap; err_has "--type"
run 2 retainers a.heap --type Node --id 3
run 2 path a.heap
run 2 path a.heap --id 3 --addr 4112
run 2 path a.heap --id 3x
run 2 sql a.heap 'SELECT 1' 'SELECT 2'
run 2 sql a.heap SELEC; err_has "cause: near \"SELEC\": syntax error"
err_has "fix:"; no_out
run 2 sql a.heap 'SELECT nope FROM type'; err_has "cause: no such column: nope"
err_has "fix: \"PRAGMA table_list\""
run 2 sql a.heap 'DELETE FROM type'; err_has "DELETE"; err_has "cause:"
err_has "fix:"
run 2 sql a.heap "ATTACH 'x.db' AS x"; err_has ATTACH
run 2 sql a.heap 'SELECT 1; DROP TABLE type'; no_out
[ ! -e x.db ] || fail "ATTACH made a file"

run 2 snapshot; err_has "-p PID"
run 2 snapshot -p 1x -o x.heap; err_has "--pid"
run 2 snapshot -p 0 -o x.heap
run 2 snapshot -p $$; err_has "-o FILE"
run 2 snapshot -p $$ -o a.heap; err_has "exists"; err_has "--force"
run 2 snapshot -p $$ -o x.heap --timeout 0
# A process that names itself: $$ is the pid of this shell, exec keeps it.
command="heapfork snapshot of itself"
bash -c 'exec "$0" snapshot -p $$ -o x.heap' "$heapfork" >out 2>err
code=$?
[ $code = 2 ] || fail "$command: exit code $code, not 2"
err_has "is heapfork itself"; err_has "cause:"; err_has "fix:"
run 10 snapshot -p $$ -o no-such-folder/x.heap; err_has "cause: there is no"
err_has "no-such-folder'"; err_has "fix:"

# 3: what is asked for is not there
run 3 snapshot -p 2000000000 -o x.heap
for beside in x.heap*; do
	[ ! -e "$beside" ] || fail "$command: left $beside"
done
run 3 path a.heap --id 99; err_has "no object 99"; no_out
err_has "cause: this snapshot has the objects 1 to 10"; err_has "fix:"
run 3 path a.heap --addr 0x10; err_has 0x10; err_has "cause:"; err_has "fix:"
run 3 retainers a.heap --id 99; err_has "objects 1 to 10"; err_has "fix:"
run 3 retainers a.heap --id 0; err_has "no object 0"
run 3 retainers a.heap --type '(unreachable)'; no_out
err_has "not a type of objects"; err_has "fix: heapfork leaks"
run 3 retainers a.heap --type '(several roots)'; err_has "fix:"; no_out
run 3 retainers a.heap --type '(un*'; err_has "there is no type"
run 3 retainers a.heap --type Nod; err_has "'Node'"

# 4: not readable
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
	chmod 600 a.heap; chmod 711 .
	command="heapfork census (as nobody)"
	cp "$heapfork" ./hf && chmod 755 hf
	ASAN_OPTIONS=detect_leaks=0 setpriv --reuid 65534 --regid 65534 \
		--clear-groups ./hf census a.heap >out 2>err
	code=$?
	[ $code = 4 ] || fail "$command: exit code $code, not 4"
	err_has "a.heap"
fi

# 5: a newer format
"$write_heap" new.heap 'PRAGMA user_version = 99'
run 5 info new.heap; err_has "version 99"; err_has "fix:"; no_out

# 6: no space for the output
command="heapfork census >/dev/full"
"$heapfork" census a.heap >/dev/full 2>err
code=$?
: >out
[ $code = 6 ] || fail "$command: exit code $code, not 6"
err_has "standard output"

# 7: no snapshot, or a damaged one
run 7 census missing.heap; err_has "cause: no such file"; no_out
err_has "'missing.heap'"; err_has "fix: heapfork snapshot"
run 7 census "$dir"; err_has "directory"
run 7 census "$heapfork"; err_has "ELF"
run 7 census /dev/null
: >empty; run 7 census empty; err_has "empty"
echo "once upon a time, there was a file of text" >text
run 7 census text; err_has "not an SQLite database"
head -c 20000 a.heap >short.heap
run 7 census short.heap; err_has "truncated"
{ head -c 4096 a.heap; head -c 60000 /dev/zero | tr '\0' '\245'
	tail -c +64097 a.heap; } >noise.heap
run 7 census noise.heap; err_has "damaged"
"$write_heap" loop.heap 'UPDATE object SET bfs_parent = 6 WHERE id = 4'
run 7 path loop.heap --id 5; err_has "circle"
run 7 retainers loop.heap --type Node; out_has "(broken chain)"
"$write_heap" view.heap \
	"DROP TABLE type_stat; CREATE VIEW type_stat AS SELECT 1 AS type_id"
run 7 census view.heap; err_has "type_stat"

# 8: time-out
run 8 sql --timeout 1 a.heap 'WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL
	SELECT i + 1 FROM n) SELECT count(*) FROM n'
err_has "time limit"; no_out

# 130, 143: signals end an endless query
for signal in INT:130 TERM:143; do
	command="heapfork sql, SIG${signal%:*}"
	# A child of a script ignores SIGINT unless it is told otherwise.
	python3 - "$heapfork" "${signal%:*}" >out 2>err <<'PYTHON'
import os, signal, subprocess, sys, time
number = getattr(signal, "SIG" + sys.argv[2])
child = subprocess.Popen(
    [sys.argv[1], "sql", "a.heap", "WITH RECURSIVE n(i) AS (SELECT 1 UNION "
     "ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"],
    preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))
def handles():
    with open("/proc/%d/status" % child.pid) as status:
        for line in status:
            if line.startswith("SigCgt:"):
                return int(line.split()[1], 16) >> (number - 1) & 1
while child.poll() is None and not handles():
    time.sleep(0.01)
child.send_signal(number)
sys.exit(child.wait(60))
PYTHON
	code=$?
	[ $code = "${signal#*:}" ] ||
		fail "$command: exit code $code, not ${signal#*:}"
	err_has "stopped by the user"; no_out
done

# A reader that goes away ends us without a word.
command="heapfork sql | head"
"$heapfork" sql a.heap --csv "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL
	SELECT i + 1 FROM n LIMIT 1000000) SELECT i FROM n" 2>err | head -n 1 >out
code=${PIPESTATUS[0]}
[ "$code" = 141 ] || fail "$command: exit code $code, not 141"
no_err

# Formats: tables for people, the same columns in csv and json.
run 0 census a.heap
out_has "Session"; out_has "6.1 KiB"; out_has "unexplained"; out_has "5.0 %"
no_err; no_control
run 0 census --bytes a.heap; out_has " 6224 "
# On a terminal of 80 columns, long names are shortened, lines are not broken.
"$write_heap" long.heap "UPDATE type SET name = 'std::unordered_map<std::string,
 std::vector<std::pair<int, std::string>>>::node_type' WHERE id = 3"
command="heapfork census (on a terminal)"
if ! python3 - "$heapfork" >out 2>err <<'PYTHON'
import os, pty, sys
pid, fd = pty.fork()
if pid == 0:
    os.environ.update(COLUMNS="80", LC_ALL="C")
    os.execv(sys.argv[1], ["heapfork", "census", "long.heap"])
data = b""
while True:
    try:
        part = os.read(fd, 4096)
    except OSError:
        break
    if not part:
        break
    data += part
os.waitpid(pid, 0)
lines = data.decode().replace("\r", "").splitlines()
table = lines[:lines.index("")]
assert all(len(line) <= 80 for line in table), table
assert any("..." in line and "std::" in line for line in table), table
assert "\x1b" not in data.decode()
PYTHON
then
	fail "$command"
fi
run 0 census --csv a.heap
out_lines 5; err_has "unexplained"
[ "$(head -n 1 out)" = "type,kind,count,bytes,retained_bytes,unreachable_count,unreachable_bytes" ] ||
	fail "$command: header"
out_has "Session,class,1,64,160,0,0"
run 0 census --csv --no-header -q a.heap; out_lines 4; no_err
run 0 census --json -q a.heap; no_err
python3 -c '
import json
rows = json.load(open("out"))
assert len(rows) == 4, rows
assert rows[0]["bytes"] == 6224 and rows[0]["type"].startswith("evil\x1b]"), rows
' || fail "$command: not the JSON that was expected"
run 0 info a.heap; out_has "paused       3.1 ms"; no_control
run 0 info --json a.heap
python3 -c '
import json
row, = json.load(open("out"))
assert row["pid"] == 4711 and row["pause_ns"] == 3100000, row
assert row["taken_ns"] == 1764590000000000000 and row["boot_id"] is None, row
' || fail "$command: not the JSON that was expected"
run 0 top --csv a.heap; out_has "1,server,root_holder,8192,0,160,0"
run 0 leaks a.heap; out_has "unreachable"; out_has "48 bytes"
run 0 leaks --csv a.heap; out_lines 2; out_has "48 bytes,size_class,48,1,48"
run 0 leaks --heads --csv a.heap; out_has "7,48 bytes,size_class,4336,48,48"
run 0 retainers a.heap --type Node; out_has "Node (x 3 deep)"; out_has "96 B"
run 0 retainers a.heap --type Node --json
python3 -c '
import json
rows = json.load(open("out"))
assert [(r["type"], r["parent_step"], r["repeat"], r["count"], r["bytes"])
        for r in rows] == [("server", None, 1, 3, 96), ("Session", 1, 1, 3, 96),
                           ("Node", 2, 3, 3, 96)], rows
' || fail "$command: not the JSON that was expected"
run 0 retainers a.heap --id 6; out_has "1 reference from 1 object"
out_has "dominators"
run 0 retainers a.heap --addr 4290 --csv; out_has "Node,class,3,1,32"
run 0 path a.heap --id 6 --csv; out_lines 6
out_has "1,5,Node,class,4240,32,64,0,1,1"
run 0 path a.heap --id 7; err_has "unreachable"; out_has "(unreachable)"

# Threads: stacks, merged ones, registers.
"$write_heap" threads.heap "INSERT INTO module(id, path) VALUES(1, '/x/server');
	INSERT INTO thread VALUES
	(1, 4711, 'main', 'S', 'syscall', 4096, 8192, -2, 202, 'futex', 'whole',
	 0),
	(2, 4712, 'w' || char(27) || '[31m', 'S', 'syscall', 5000, 9000, 1, 999,
	 NULL, 'lost', 1),
	(3, 4713, 'w3', 'R', 'user', 5000, 9100, 1, NULL, NULL, 'lost', 0),
	(4, 4714, 'late', NULL, 'partial', NULL, NULL, NULL, NULL, NULL, 'none',
	 NULL);
	INSERT INTO thread_register VALUES(1, 0, 'rax', -512),
	(1, 1, 'rbx', 7), (3, 0, 'rax', 9);
	INSERT INTO frame VALUES
	(1, 1, 0, 4096, 8192, 8256, 1, 'pop', 'src/queue.h', 40, 1, 0,
	 'inline'),
	(2, 1, 1, 4096, 8192, 8256, 1, 'serve', 'src/server.c', 214, 0, 0,
	 'registers'),
	(3, 1, 2, 4200, 8256, NULL, 1, 'main(int, char**)', NULL, NULL, 0, 1,
	 'cfi'),
	(4, 2, 0, 5000, 9000, 9100, NULL, NULL, NULL, NULL, 0, 0, 'registers'),
	(5, 2, 1, 5100, 9100, NULL, NULL, NULL, NULL, NULL, 0, 0,
	 'frame_pointer'),
	(6, 3, 0, 5000, 9100, 9200, NULL, NULL, NULL, NULL, 0, 0, 'registers'),
	(7, 3, 1, 5100, 9200, NULL, NULL, NULL, NULL, NULL, 0, 0,
	 'frame_pointer')"
run 0 threads threads.heap; no_err; no_control
out_has 'thread 4711 "main": S (sleeping), in futex'
out_has '    pc 0x1000, sp 0x2000, bp 0xfffffffffffffffe'
out_has ' #0  0x0000000000001000 pop() (inlined) at queue.h:40 in server'
out_has ' #1  0x0000000000001000 serve() at server.c:214 in server'
out_has '0x0000000000001068 main(int, char**) <signal handler called> in server'
out_has 'in system call 999, in the allocator'
out_has 'thread 4713 "w3": R (running), in its own code'
out_has ' #1  0x00000000000013ec ??() [inferred: by frame pointer]'
out_has 'the stack is lost here'
out_has 'thread 4714 "late": could not be stopped'
run 0 threads --merge threads.heap; no_err; no_control
head -n 1 out | grep -q '^2 threads (.*w3): 4712, 4713$' ||
	fail "$command: the largest group is not first"
out_has '1 thread (main): 4711'
run 0 threads --merge --tid 4713 --csv threads.heap; out_lines 3
run 0 threads --merge --limit 1 threads.heap; err_has "... 2 more"
run 0 threads --tid 4711 --registers threads.heap
out_has 'rax      0xfffffffffffffe00  rbx      0x0000000000000007'
! grep -q 4712 out || fail "$command: another thread"
run 0 threads --registers --csv threads.heap; out_lines 4
out_has "1,4711,main,rax,-512"
run 0 threads --csv threads.heap; out_lines 9
out_has "4096,8192,-2,whole,0,pop,src/queue.h,40,1,0,/x/server,4096,8192,8256,"
run 0 threads --json --limit 1 threads.heap; err_has "... 3 more"
python3 -c '
import json
rows = json.load(open("out"))
assert [r["function"] for r in rows] == ["pop", "serve", "main(int, char**)"]
assert rows[0]["syscall_name"] == "futex" and rows[2]["is_signal"] == 1, rows
' || fail "$command: not the JSON that was expected"
run 3 threads --tid 5 threads.heap; err_has "there was no thread 5"; no_out
run 3 threads a.heap; err_has "the snapshot has no threads"
run 2 threads --tid x a.heap; err_has "--tid"
run 2 threads --merge --registers a.heap; err_has "not both"

# A heap that nobody knows is not an empty one.
none="DELETE FROM heap_area; DELETE FROM reader; DELETE FROM type_stat;
	DELETE FROM object; UPDATE snapshot SET partial = 1, objects = 0,
	live_bytes = 0, unknown_bytes = 73500"
"$write_heap" none.heap "$none; INSERT INTO meta VALUES('partial',
	'no_allocator')"
run 0 census none.heap
out_has "an unknown allocator (or the program's own mappings) holds 73.5 %"
out_has "partial      no allocator that heapfork knows"; no_err
run 0 leaks none.heap; out_has "nothing is known about this heap"
err_has "cause:"; err_has "73 %"; err_has "fix:"
run 0 leaks --csv none.heap; out_lines 1; err_has "nothing is known"
run 0 info none.heap; out_has "none found a heap"
run 0 sql --csv none.heap "SELECT ok FROM certificate
	WHERE item = 'heap readers'"; out_has 0
"$write_heap" newer.heap "$none; INSERT INTO meta VALUES('partial',
	'memory,unsupported'), ('unsupported', 'glibc 2.99 in libc.so.6' ||
	char(27))"
run 0 census newer.heap; out_has "unsupported  glibc 2.99"; no_control
out_has "some memory could not be read; its allocator is not supported"
"$write_heap" child.heap "INSERT INTO meta VALUES('capture.vfork_children',
	'1'), ('capture.descriptors_closed', '0'), ('capture.reaped', '0')"
run 0 sql --csv child.heap "SELECT count(*) FROM certificate WHERE ok = 0"
out_has 4
run 0 info child.heap; out_has "child reaped"
run 0 info --certificate --csv child.heap
out_has "child reaped,no,0,child,,reaped,0"
out_has "item,value,ok,part,unit,key,number"
run 0 info --certificate --json child.heap; out_has '"key": "vfork_children"'
run 0 info --certificate child.heap; out_has "! child reaped"

# A pipe does not change the format; nor does the locale change numbers.
"$heapfork" census a.heap | cat >piped 2>err
run 0 census a.heap
cmp -s out piped || fail "$command: differs in a pipe"
command="heapfork census in another locale"
LC_ALL=de_DE.UTF-8 "$heapfork" census a.heap >out 2>err
out_has "6.1 KiB"

# Limits: what is left out is said.
run 0 census --limit 1 a.heap; err_has "... 3 more, --limit 0 shows all"
run 0 census --limit 1 --csv a.heap; out_lines 2
run 0 census --limit 0 a.heap; no_err
run 0 top --limit 3 a.heap; err_has "... 7 more"
run 0 path a.heap --id 6 --limit 2 --csv; out_lines 3; err_has "3 steps"
run 0 retainers a.heap --type Node --limit 1 --csv; out_lines 2
err_has "... 2 more"
run 0 sql a.heap --csv 'SELECT id FROM object'; out_lines 11; no_err
run 0 sql a.heap --csv --limit 2 'SELECT id FROM object'; out_lines 3
err_has "... 8 more"
"$write_heap" many.heap "WITH RECURSIVE n(i) AS (SELECT 100 UNION ALL SELECT
	i + 1 FROM n WHERE i < 149) INSERT INTO type SELECT i, 't' || i, NULL,
	'class', NULL, NULL, NULL FROM n; INSERT INTO type_stat SELECT id, 1,
	id, 0, 0, id FROM type WHERE id >= 100"
run 0 census --csv many.heap; out_lines 21; err_has "... 34 more"

# SQL: what it may do.
run 0 sql a.heap --csv 'SELECT 9223372036854775807, NULL, x'"'00ff'"
out_has "9223372036854775807,,00ff"
run 0 sql a.heap --csv 'SELECT 1 AS a; SELECT 2 AS b'; out_lines 4
run 0 sql a.heap 'PRAGMA table_info(type)'; out_has full_name
command="heapfork sql from standard input"
echo 'SELECT count(*) AS n FROM object;' | "$heapfork" sql --csv a.heap >out 2>err
out_has 10

# Names of files and of types do not command the terminal.
name=$'\e]0;owned\a.heap'
run 7 census "$name"; no_control
cp a.heap "./$name"
run 0 census "./$name"; no_control
run 0 retainers a.heap --type '*'; no_control
run 0 sql a.heap 'SELECT name FROM type'; no_control
run 2 sql a.heap $'SELECT \e[31m'; no_control
run 2 $'\e[31m'; no_control

# The file is never written.
sum=$(cksum <a.heap)
run 0 sql a.heap 'PRAGMA quick_check'
[ "$sum" = "$(cksum <a.heap)" ] || fail "the snapshot was changed"
for beside in a.heap-journal a.heap-wal a.heap-shm; do
	[ ! -e $beside ] || fail "$beside was made"
done

[ $failed = 0 ] && echo "all as expected"
exit $failed
