"""Inside gdb: all frames of all threads, one a line.

SPDX-License-Identifier: MIT

gdb -batch -x gdb_frames.py EXE CORE prints for each thread
  THREAD tid
  FRAME pc TYPE function-address name     from the innermost on
  END why gdb stopped
"""
import gdb  # pylint: disable=import-error

TYPES = {gdb.NORMAL_FRAME: "normal", gdb.INLINE_FRAME: "inline",
         gdb.TAILCALL_FRAME: "tailcall", gdb.SIGTRAMP_FRAME: "signal"}

for setting in ("width 0", "backtrace past-main on", "backtrace past-entry on",
                "backtrace limit 1000"):
    gdb.execute("set " + setting)
for thread in sorted(gdb.selected_inferior().threads(),
                     key=lambda thread: thread.num):
    thread.switch()
    print("THREAD %d" % thread.ptid[1])
    frame, reason = gdb.newest_frame(), 0
    while frame is not None:
        print("FRAME 0x%x %s %s" % (
            frame.pc(), TYPES.get(frame.type(), "other"),
            frame.name() or "?"))
        try:
            reason = frame.unwind_stop_reason()
            frame = frame.older()
        except gdb.error as error:
            reason, frame = -1, None
            print("ERROR %s" % error)
    print("END " + (gdb.frame_stop_reason_string(reason) if reason > 0
                    else "-"))
