#!/usr/bin/env python3
"""The matrix of permissions: each cell gives a snapshot, or the right sentence
and exit code; `heapfork doctor` says the same beforehand; and the process goes
on in any case.

usage: test_permissions.py HEAPFORK VICTIM CONFINE STUB

SPDX-License-Identifier: MIT
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

from hf_e2e import children, fail

SKIPPED = 77
NOBODY, OTHER = 65534, 65533
TOOL_LIMIT_S = 60

# Who starts a process, as a command before it.
ROOT = []


def user(uid, *options):
    return ["setpriv", "--reuid", str(uid), "--regid", str(uid),
            "--clear-groups", *options]


NOBODY_USER = user(NOBODY)
OTHER_USER = user(OTHER)
# Root, as in a container: capabilities are gone for good.
NO_PTRACE = ["setpriv", "--bounding-set", "-sys_ptrace", "--inh-caps",
             "-sys_ptrace"]
NO_ADMIN = ["setpriv", "--bounding-set", "-sys_admin", "--inh-caps",
            "-sys_admin"]


def user_with(*names):
    caps = ",".join("+" + name for name in names)
    return user(NOBODY, "--inh-caps", caps, "--ambient-caps", caps)


ONLY_PTRACE = user_with("sys_ptrace")
PTRACE_FILES = user_with("sys_ptrace", "dac_override")
PTRACE_FILES_KILL = user_with("sys_ptrace", "dac_override", "kill")
USER_NS = ["unshare", "-U", "-r"]
PID_NS = ["unshare", "-p", "-f", "--kill-child", "--mount-proc"]
MOUNT_NS = ["unshare", "-m"]
OTHERS_PROC = ["unshare", "-p", "-f", "--kill-child"]


def hidden(mode):
    """/proc shows a user no process of others."""
    return [*MOUNT_NS, "sh", "-c", "mount -t proc -o hidepid=%d proc /proc && "
            'exec "$@"' % mode, "sh", *OTHER_USER]


IN_ITS_USER_NS = ["nsenter", "-t", "{pid}", "-U", "--preserve-credentials"]


def confine(what):
    return ["{confine}", what]


def yama(scope):
    return {"/proc/sys/kernel/yama/ptrace_scope": "%d\n" % scope}


def labels(own, target):
    return {"/proc/self/attr/current": own + "\n",
            "/proc/{pid}/attr/current": target + "\n"}


APPARMOR = labels("docker-default (enforce)", "/usr/sbin/app (enforce)")
SELINUX = labels("system_u:system_r:container_t:s0:c1,c2",
                 "system_u:system_r:httpd_t:s0")
DOCKER = {"container": "docker"}
PODMAN = {"container": "podman"}
POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}

TAKEN, GONE, DENIED, UNSUPPORTED, OS_FAILED = 0, 3, 4, 5, 10


class Cell:
    """One row: who, whom, what comes of it."""

    def __init__(self, name, victim, mode, tool, code, said=(), unsaid=(),
                 env=None, stub=None, traced=False):
        self.name, self.victim, self.mode = name, victim, mode
        self.tool, self.code = tool, code
        self.said, self.unsaid = said, unsaid
        self.env = env or {}    # of the tool
        self.stub = stub        # files, and a refusal of the module
        self.traced = traced    # by somebody else


# name                         victim       mode     tool
#                              exit   said, unsaid, more
MATRIX = [
    # ---- uid x capabilities ----
    Cell("root, root's process", ROOT, "plain", ROOT, TAKEN),
    Cell("root, anybody's process", NOBODY_USER, "plain", ROOT, TAKEN),
    Cell("user, its own process", NOBODY_USER, "plain", NOBODY_USER, TAKEN),
    Cell("user, root's process", ROOT, "plain", NOBODY_USER, DENIED,
         ["belongs to uid 0", "uid 65534", "sudo"]),
    Cell("user, another user's process", OTHER_USER, "plain", NOBODY_USER,
         DENIED, ["belongs to uid 65533", "sudo"]),
    Cell("user with CAP_SYS_PTRACE, root's process", ROOT, "plain",
         ONLY_PTRACE, DENIED, ["CAP_DAC_OVERRIDE"]),
    Cell("user with CAP_SYS_PTRACE, its own process", NOBODY_USER, "plain",
         ONLY_PTRACE, TAKEN),
    Cell("user with CAP_SYS_PTRACE and CAP_DAC_OVERRIDE", ROOT, "plain",
         PTRACE_FILES, DENIED, ["CAP_KILL"]),
    Cell("user with CAP_KILL, too", ROOT, "plain", PTRACE_FILES_KILL, TAKEN),
    Cell("root without CAP_SYS_PTRACE, root's process", ROOT, "plain",
         NO_PTRACE, DENIED,
         ["has capabilities that we have not", "CapabilityBoundingSet"],
         ["sudo"]),
    Cell("root without CAP_SYS_PTRACE, a user's process", NOBODY_USER,
         "plain", NO_PTRACE, DENIED,
         ["root without CAP_SYS_PTRACE", "CapabilityBoundingSet"], ["sudo"]),
    Cell("user, its own process, not dumpable", NOBODY_USER, "undumpable",
         NOBODY_USER, DENIED, ["is not dumpable", "sudo"]),
    Cell("root, not dumpable", NOBODY_USER, "undumpable", ROOT, TAKEN),
    Cell("somebody traces it", ROOT, "plain", ROOT, DENIED,
         ["already traces it", "end that debugger"], traced=True),

    # ---- containers: the same refusals, with other cures ----
    Cell("Docker, root without CAP_SYS_PTRACE", NOBODY_USER, "plain",
         NO_PTRACE, DENIED, ["--cap-add=SYS_PTRACE"], ["sudo"], env=DOCKER),
    Cell("Docker, user", ROOT, "plain", NOBODY_USER, DENIED,
         ["docker exec -u 0", "--cap-add=SYS_PTRACE"], ["sudo"], env=DOCKER),
    Cell("Podman, user", ROOT, "plain", NOBODY_USER, DENIED,
         ["podman exec -u 0"], ["sudo"], env=PODMAN),
    Cell("Kubernetes, root without CAP_SYS_PTRACE", NOBODY_USER, "plain",
         NO_PTRACE, DENIED,
         ["securityContext.capabilities.add", "--profile=general"], ["sudo"],
         env=POD),
    Cell("Kubernetes, user", ROOT, "plain", NOBODY_USER, DENIED,
         ["runAsUser: 0", "SYS_PTRACE"], ["sudo"], env=POD),

    # ---- seccomp on the tool ----
    Cell("no process_vm_readv", ROOT, "plain", confine("readv"), TAKEN),
    Cell("no ptrace", ROOT, "plain", confine("ptrace"), DENIED,
         ["seccomp filter on heapfork itself", "SystemCallFilter"],
         ["sudo"]),
    Cell("neither", ROOT, "plain", confine("both"), DENIED,
         ["seccomp filter on heapfork itself"]),
    Cell("ptrace kills", ROOT, "plain", confine("kill-ptrace"), DENIED,
         ["seccomp filter on heapfork itself", "it would kill us"]),
    Cell("Docker, no ptrace", ROOT, "plain", confine("ptrace"), DENIED,
         ["seccomp=unconfined"], ["sudo"], env=DOCKER),
    Cell("Kubernetes, no ptrace", ROOT, "plain", confine("ptrace"), DENIED,
         ["seccompProfile.type: Unconfined"], ["sudo"], env=POD),
    Cell("user, no ptrace, its own process", NOBODY_USER, "plain",
         NOBODY_USER + confine("ptrace"), DENIED,
         ["seccomp filter on heapfork itself"], ["dumpable"]),

    # ---- seccomp on the target ----
    Cell("a filter that we may suspend", ROOT, "errno", ROOT, TAKEN),
    Cell("a filter that kills", ROOT, "kill", ROOT, TAKEN),
    Cell("strict mode", ROOT, "strict", ROOT, TAKEN),
    Cell("a filter, no CAP_SYS_ADMIN", ROOT, "errno", NO_ADMIN, DENIED,
         ["under seccomp", "no CAP_SYS_ADMIN", "all capabilities of root",
          "--mode stop"], ["sudo", "container", "and a filter"]),
    Cell("a filter, user", NOBODY_USER, "kill", NOBODY_USER, DENIED,
         ["under seccomp", "sudo heapfork", "--mode stop"], ["container"]),
    Cell("a filter on both", ROOT, "errno", confine("readv"), DENIED,
         ["under seccomp", "and a filter", "SystemCallFilter",
          "--mode stop"], ["sudo", "container", "no CAP_SYS_ADMIN"]),
    Cell("a filter, Docker", ROOT, "errno", NO_ADMIN, DENIED,
         ["under seccomp", "outside of the container", "--mode stop"],
         ["sudo"], env=DOCKER),
    Cell("a filter on both, Docker", ROOT, "errno", confine("readv"), DENIED,
         ["under seccomp", "seccomp=unconfined", "--mode stop"],
         ["sudo"], env=DOCKER),
    Cell("a filter, pod", ROOT, "errno", NO_ADMIN, DENIED,
         ["under seccomp", "--profile=sysadmin", "--mode stop"],
         ["sudo"], env=POD),

    # ---- namespaces ----
    Cell("root of a user namespace, a process outside", ROOT, "plain",
         USER_NS, DENIED, ["user namespace", "as root of the machine"],
         ["sudo"]),
    Cell("root, a process in a user namespace", USER_NS, "plain", ROOT,
         TAKEN),
    Cell("root of the same user namespace", USER_NS, "plain",
         IN_ITS_USER_NS, TAKEN),
    Cell("root, init of a pid namespace", PID_NS, "plain", ROOT, TAKEN),
    Cell("in a pid namespace, a pid from outside", ROOT, "plain", PID_NS,
         GONE, ["no process with pid", "valid where heapfork runs"]),
    Cell("in a pid namespace, with the /proc of another", ROOT, "plain",
         OTHERS_PROC, UNSUPPORTED, ["of another pid namespace",
                                    "--mount-proc"]),
    Cell("hidden by /proc", NOBODY_USER, "plain", hidden(2), DENIED,
         ["is hidden", "hidepid", "sudo"]),
    Cell("half hidden by /proc", NOBODY_USER, "plain", hidden(1), DENIED,
         ["is hidden", "hidepid", "sudo"]),
    Cell("in another mount namespace", MOUNT_NS, "plain", ROOT, TAKEN),

    # ---- Yama ----
    Cell("Yama 0", NOBODY_USER, "plain", NOBODY_USER, TAKEN, stub=(yama(0), False)),
    Cell("Yama 1, user", NOBODY_USER, "plain", NOBODY_USER, DENIED,
         ["ptrace_scope is 1", "descendants", "sudo",
          "sysctl kernel.yama.ptrace_scope=0"], ["dumpable"],
         stub=(yama(1), True)),
    Cell("Yama 1, but it has named us", NOBODY_USER, "plain", NOBODY_USER,
         TAKEN, stub=(yama(1), False)),
    Cell("Yama 1, root", NOBODY_USER, "plain", ROOT, TAKEN,
         stub=(yama(1), False)),
    Cell("Yama 1, user in Docker", NOBODY_USER, "plain", NOBODY_USER, DENIED,
         ["ptrace_scope is 1", "docker exec -u 0"], ["sudo", "sysctl"],
         env=DOCKER, stub=(yama(1), True)),
    Cell("Yama 2, user", NOBODY_USER, "plain", NOBODY_USER, DENIED,
         ["ptrace_scope is 2", "sudo"], ["sysctl"], stub=(yama(2), True)),
    Cell("Yama 2, root", NOBODY_USER, "plain", ROOT, TAKEN,
         stub=(yama(2), False)),
    Cell("Yama 3, root", ROOT, "plain", ROOT, DENIED,
         ["ptrace_scope is 3", "until the next boot"], ["sudo"],
         stub=(yama(3), True)),

    # ---- security modules ----
    Cell("AppArmor lets us", ROOT, "plain", ROOT, TAKEN,
         stub=(APPARMOR, False)),
    Cell("AppArmor refuses", ROOT, "plain", ROOT, DENIED,
         ["docker-default (enforce)", "/usr/sbin/app (enforce)", "dmesg"],
         ["sudo"], stub=(APPARMOR, True)),
    Cell("SELinux refuses", ROOT, "plain", ROOT, DENIED,
         ["container_t", "httpd_t", "ausearch"], ["sudo"],
         stub=(SELINUX, True)),

    # ---- limits ----
    Cell("no process more for this user", NOBODY_USER, "nproc", ROOT,
         OS_FAILED, ["RLIMIT_NPROC", "--mode stop"]),
]


class Bench:
    """Programs where every user can run them, and a folder for each cell."""

    def __init__(self, programs, folder):
        self.folder = folder
        os.chmod(folder, 0o755)
        self.paths = {}
        for name, path in programs.items():
            self.paths[name] = shutil.copy(path, folder)
            os.chmod(self.paths[name], 0o755)


def start_victim(bench, cell):
    """(the process we started, the pid of the victim itself)"""
    process = subprocess.Popen(
        [*cell.victim, bench.paths["victim"], cell.mode],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if process.stdout.readline().strip() != "ready":
        process.kill()
        process.wait()
        return None, 0
    pid = process.pid
    # unshare -f waits for its child.
    if "-f" in cell.victim:
        pid = children(pid)[0][0]
    return process, pid


def is_alive(process):
    process.stdin.write("\n")
    process.stdin.flush()
    return process.stdout.readline().strip() == "alive"


TRACER = """
import ctypes, sys, time
libc = ctypes.CDLL(None, use_errno=True)
if libc.ptrace(0x4206, int(sys.argv[1]), None, None) != 0:
    sys.exit(1)
print("traced", flush=True)
time.sleep(100)
"""


def start_tracer(pid):
    tracer = subprocess.Popen([sys.executable, "-c", TRACER, str(pid)],
                              stdout=subprocess.PIPE, text=True)
    if tracer.stdout.readline().strip() != "traced":
        fail("the other tracer could not attach")
    return tracer


def tool_environment(bench, cell, pid, folder):
    env = {name: value for name, value in os.environ.items()
           if name not in ("container", "KUBERNETES_SERVICE_HOST")}
    env.update(cell.env)
    if not cell.stub:
        return env
    files, refuse = cell.stub
    for path, text in files.items():
        path = folder + "/root" + path.replace("{pid}", str(pid))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
    env.update(LD_PRELOAD=bench.paths["stub"], HF_STUB_ROOT=folder + "/root")
    if refuse:
        env["HF_STUB_REFUSE"] = str(pid)
    return env


def run_tool(bench, cell, pid, env, arguments):
    prefix = [word.replace("{pid}", str(pid))
              .replace("{confine}", bench.paths["confine"])
              for word in cell.tool]
    return subprocess.run([*prefix, bench.paths["heapfork"], *arguments],
                          capture_output=True, text=True, env=env,
                          timeout=TOOL_LIMIT_S, cwd=bench.folder)


def complaints(cell, run, text, codes):
    found = []
    if run.returncode not in codes:
        found.append("exit %d, not %d" % (run.returncode, cell.code))
    if cell.code != TAKEN:
        found += ["does not say '%s'" % part for part in cell.said
                  if part not in text]
        found += ["says '%s'" % part for part in cell.unsaid if part in text]
    return found


def check_snapshot(bench, cell, pid, env, folder):
    output = folder + "/a.heap"
    run = run_tool(bench, cell, pid, env,
                   ["snapshot", "-p", str(pid), "-o", output])
    # 9: a victim without a heap is worth a warning.
    codes = (0, 9) if cell.code == TAKEN else (cell.code,)
    found = complaints(cell, run, run.stderr, codes)
    if (cell.code == TAKEN) != os.path.exists(output):
        found.append("a file is there, or is not")
    if cell.code != TAKEN and "cause: " not in run.stderr and \
            cell.code != GONE:
        found.append("gives no cause")
    return ["snapshot " + text for text in found], run.stderr


def check_doctor(bench, cell, pid, env):
    run = run_tool(bench, cell, pid, env, ["doctor", "--json", str(pid)])
    try:
        rows = json.loads(run.stdout)
    except ValueError:
        return ["doctor prints no JSON"], run.stdout + run.stderr
    blockers = [row for row in rows if row["verdict"] == "blocker"]
    text = "\n".join(str(row[key]) for row in rows for key in
                     ("found", "cause", "fix")
                     if row["verdict"] in ("blocker", "unknown"))
    # 9: a victim without a heap is worth a warning.
    codes = (0, 9) if cell.code == TAKEN else (cell.code,)
    found = complaints(cell, run, text, codes)
    if bool(blockers) != (cell.code != TAKEN):
        found.append("has %d blockers" % len(blockers))
    found += ["has no %s for blocker %s" % (key, row["check"])
              for row in blockers for key in ("found", "cause")
              if not row[key] and cell.code != GONE]
    return ["doctor " + one for one in found], text


def run_cell(bench, cell):
    process, pid = start_victim(bench, cell)
    if not process:
        return None, "the victim cannot be started so here"
    tracer = start_tracer(pid) if cell.traced else None
    try:
        with tempfile.TemporaryDirectory(dir=bench.folder) as folder:
            os.chmod(folder, 0o777)
            env = tool_environment(bench, cell, pid, folder)
            found, said = check_doctor(bench, cell, pid, env)
            more, said_too = check_snapshot(bench, cell, pid, env, folder)
            found += more
        if not is_alive(process):
            found.append("the process does not answer any more")
        return found, said + "\n--\n" + said_too
    finally:
        for one in (tracer, process):
            if one:
                one.kill()
                one.wait()


def may_do_this():
    """Users, capabilities and namespaces can be made here."""
    if os.geteuid() != 0:
        return "root is needed to be others"
    for command in (NOBODY_USER, NO_PTRACE, NO_ADMIN):
        if subprocess.run([*command, "true"], capture_output=True).returncode:
            return "'%s' does not work here" % " ".join(command)
    return None


def main():
    programs = dict(zip(("heapfork", "victim", "confine", "stub"),
                        sys.argv[1:5]))
    only = sys.argv[5:]
    why = may_do_this()
    if why:
        print("skipped: " + why)
        return SKIPPED
    failed = skipped = 0
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(programs, folder)
        for cell in MATRIX:
            if only and not any(part in cell.name for part in only):
                continue
            if cell.stub and os.environ.get("HF_SANITIZED"):
                skipped += 1
                continue
            if subprocess.run([*[word for word in cell.victim if
                                 not word.startswith("{")], "true"],
                              capture_output=True).returncode:
                print("skipped: %s" % cell.name)
                skipped += 1
                continue
            # In a changed root, and in many containers, nobody may.
            if cell.tool[:1] == ["unshare"] and subprocess.run(
                    [word.replace("{confine}", programs["confine"])
                     for word in cell.tool] + ["true"],
                    capture_output=True).returncode:
                print("skipped: %s: no such namespace here" % cell.name)
                skipped += 1
                continue
            found, said = run_cell(bench, cell)
            if found is None:
                print("skipped: %s: %s" % (cell.name, said))
                skipped += 1
            elif found:
                failed += 1
                print("FAIL: %s:\n  %s\n%s" % (cell.name, "\n  ".join(found),
                                               said))
            else:
                print("ok: " + cell.name)
    print("%d cells, %d failed, %d skipped, %.0f s" %
          (len(MATRIX), failed, skipped, time.monotonic() - start))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
