"""Programs as users write them, in the languages of the interpreters.

SPDX-License-Identifier: MIT

Each is a little store that answers lines, keeps its data in plain objects and
can say what it has, so that the test can check it.
"""

# A threaded server. Its values are longer than 512 bytes: with Python's own
# allocator they come from malloc, while the small objects that hold them lie
# in Python's pools, which only Python understands.
PYTHON = r'''
import os, signal, socketserver, sys

seen = {"sigchld": 0, "spawned": 0}
def on_child(*_):
    seen["sigchld"] += 1
signal.signal(signal.SIGCHLD, on_child)

class Entry:
    __slots__ = ("name", "value")
    def __init__(self, name, value):
        self.name, self.value = name, value

store = {}
def put(number):
    store[number] = Entry("entry %d" % number, bytes(700 + number % 8))

for number in range(20000):
    put(number)

class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            words = line.split()
            if words[0] == b"put":
                put(int(words[1]))
                answer = "ok"
            elif words[0] == b"len":
                answer = str(len(store[int(words[1])].value))
            elif words[0] == b"spawn":
                # Wait for any child: one that is not ours must not show.
                seen["spawned"] += 1
                pid = os.posix_spawn("/bin/true", ["true"], os.environ)
                answer = "ok" if os.waitpid(-1, 0) == (pid, 0) else "wrong"
            elif words[0] == b"count":
                answer = "%d %d %d" % (len(store), seen["spawned"],
                                      seen["sigchld"])
            self.wfile.write(answer.encode() + b"\n")

class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
'''

LUA = r'''
io.stdout:setvbuf("line")
local store = {}
local function put(number)
  store[number] = { name = "entry " .. number, tags = { number, number + 1 } }
end
for number = 1, 5000 do put(number) end
for line in io.lines() do
  local verb, number = line:match("^(%a+) (%d+)$")
  number = tonumber(number)
  if verb == "put" then
    put(number)
    print("ok")
  elseif verb == "get" then
    print(store[number].name .. " " .. store[number].tags[2])
  else
    local count = 0
    for _ in pairs(store) do count = count + 1 end
    print(count)
  end
end
'''

PERL = r'''
$| = 1;
my %store;
sub put { $store{$_[0]} = { name => "entry $_[0]", tags => [$_[0], $_[0] + 1] } }
put($_) for 1 .. 5000;
while (<STDIN>) {
    my ($verb, $number) = split;
    if ($verb eq "put") { put($number); print "ok\n" }
    elsif ($verb eq "get") {
        print "$store{$number}{name} $store{$number}{tags}[1]\n"
    }
    else { print scalar(keys %store), "\n" }
}
'''

SQL = """
CREATE TABLE entry(number INTEGER PRIMARY KEY, name TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
INSERT INTO entry SELECT i, 'entry ' || i FROM n;
"""

NGINX = """
worker_processes 1;
daemon off;
pid @FOLDER@/pid;
error_log @FOLDER@/error.log;
%(user)s
events { worker_connections 64; }
http {
    access_log @FOLDER@/access.log;
    client_body_temp_path @FOLDER@/body;
    proxy_temp_path @FOLDER@/proxy;
    fastcgi_temp_path @FOLDER@/fastcgi;
    uwsgi_temp_path @FOLDER@/uwsgi;
    scgi_temp_path @FOLDER@/scgi;
    server { listen 127.0.0.1:%(port)d; root @FOLDER@; }
}
"""
