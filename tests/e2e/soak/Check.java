// A Java program that checks itself while it works: threads, garbage
// collection, child processes, timers, queues, files.
// SPDX-License-Identifier: MIT
// The protocol is that of check.py.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.IntStream;

public class Check {
    interface Step {
        void run() throws Exception;
    }

    static volatile boolean working;
    static final Object gate = new Object();
    static final AtomicInteger busy = new AtomicInteger();
    static final AtomicLong done = new AtomicLong(), wrong = new AtomicLong();
    static final AtomicLong ticks = new AtomicLong();
    static final AtomicReference<String> detail = new AtomicReference<>("-");
    static final ArrayBlockingQueue<long[]> channel =
        new ArrayBlockingQueue<>(50);

    static void checked(boolean right, String what) {
        done.incrementAndGet();
        if (!right) {
            wrong.incrementAndGet();
            detail.set(what.replaceAll("\\s", "_"));
        }
    }

    static void worker(Step step) {
        Thread thread = new Thread(() -> {
            while (true) {
                synchronized (gate) {
                    while (!working) {
                        try {
                            gate.wait();
                        } catch (InterruptedException e) {
                            checked(false, "interrupted");
                        }
                    }
                    busy.incrementAndGet();
                }
                try {
                    step.run();
                    // Whoever takes the snapshots works, too.
                    Thread.sleep(5);
                } catch (Throwable e) {
                    checked(false, e.toString());
                }
                busy.decrementAndGet();
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    static final byte[] block = new byte[1 << 20];
    static byte[] digest;

    static void computes() throws Exception {
        checked(Arrays.equals(MessageDigest.getInstance("SHA-256")
            .digest(block), digest), "sha256");
    }

    // Garbage of every age: the old generation is collected, too.
    static final Map<Integer, List<String>> kept = new HashMap<>();

    static void churns() {
        for (int i = 0; i < 2000; i++) {
            int key = ThreadLocalRandom.current().nextInt(20000);
            List<String> list = new ArrayList<>();
            for (int j = 0; j < key % 13; j++)
                list.add("value " + key + " " + j);
            kept.put(key, list);
        }
        boolean right = true;
        for (Map.Entry<Integer, List<String>> e : kept.entrySet()) {
            int key = e.getKey(), size = e.getValue().size();
            right &= size == key % 13 && (size == 0 || e.getValue()
                .get(size - 1).equals("value " + key + " " + (size - 1)));
        }
        checked(right, "churn");
    }

    static void streams() {
        checked(IntStream.range(0, 100000).parallel().mapToLong(i -> i % 7)
            .sum() == IntStream.range(0, 100000).mapToLong(i -> i % 7).sum(),
            "parallel stream");
    }

    static void spawns() throws Exception {
        String word = "word-" + ThreadLocalRandom.current().nextInt(1000000);
        Process process = new ProcessBuilder("/bin/echo", word).start();
        process.getOutputStream().close();
        String out = new String(process.getInputStream().readAllBytes(),
            StandardCharsets.UTF_8);
        checked(process.waitFor() == 0 && out.equals(word + "\n"),
            "echo: " + out);
        process.getInputStream().close();
        process.getErrorStream().close();
    }

    static void produces() throws Exception {
        long number = ThreadLocalRandom.current().nextLong();
        channel.offer(new long[] { number, number * 3 + 1 }, 100,
            TimeUnit.MILLISECONDS);
    }

    static void consumes() throws Exception {
        long[] pair = channel.poll(100, TimeUnit.MILLISECONDS);
        if (pair != null)
            checked(pair[1] == pair[0] * 3 + 1, "queue");
    }

    static void sleeps() throws Exception {
        long start = System.nanoTime();
        Thread.sleep(10);
        checked(System.nanoTime() - start >= 9_900_000, "a short sleep");
    }

    static void files() throws Exception {
        Path path = Path.of("file-" + Thread.currentThread().getId());
        String text = "line\n".repeat(1000);
        Files.writeString(path, text);
        checked(Files.readString(path).equals(text), "file");
    }

    public static void main(String[] args) throws Exception {
        for (int i = 0; i < block.length; i++)
            block[i] = (byte) (i * 31);
        digest = MessageDigest.getInstance("SHA-256").digest(block);
        ScheduledThreadPoolExecutor timer = new ScheduledThreadPoolExecutor(1);
        timer.scheduleAtFixedRate(ticks::incrementAndGet, 10, 10,
            TimeUnit.MILLISECONDS);
        for (Step step : new Step[] { Check::computes, Check::churns,
                Check::streams, Check::spawns, Check::spawns, Check::produces,
                Check::consumes, Check::sleeps, Check::files })
            worker(step);
        BufferedReader in = new BufferedReader(
            new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null;) {
            if (line.equals("work")) {
                synchronized (gate) {
                    working = true;
                    gate.notifyAll();
                }
            } else if (line.equals("rest")) {
                synchronized (gate) {
                    working = false;
                }
                while (busy.get() > 0)
                    Thread.sleep(5);
                long before = ticks.get();
                Thread.sleep(200);
                checked(ticks.get() > before, "no ticks of the timer");
                System.gc();
                System.out.println("resting " + done + " " + wrong + " " +
                    detail);
            }
        }
        System.exit(wrong.get() > 0 ? 1 : 0);
    }
}
