// SPDX-License-Identifier: MIT
import java.nio.file.*;
import java.util.*;
import java.util.stream.*;

/** Threads, a child, files, the environment, an exception that is a signal. */
public class Main {
	public static void main(String[] arguments) throws Exception {
		System.out.println(IntStream.range(0, 100000).parallel().mapToLong(n -> n).sum());
		Process child = new ProcessBuilder("sh", "-c", "echo sub; exit 4").inheritIO().start();
		System.out.println(child.waitFor());
		for (int n = 0; n < 30; n++)
			Files.writeString(Path.of("f" + n), "x".repeat(n));
		try (var names = Files.list(Path.of("."))) {
			System.out.println(names.map(Path::toString).sorted().collect(Collectors.toList()));
		}
		System.out.println(new TreeSet<>(System.getenv().keySet()).stream()
			.filter(name -> !name.startsWith("LD_") && !name.startsWith("TSSHIM"))
			.collect(Collectors.toList()));
		List<Thread> threads = new ArrayList<>();
		for (int n = 0; n < 20; n++) {
			threads.add(new Thread(() -> { byte[] bytes = new byte[1 << 20]; }));
			threads.get(n).start();
		}
		for (Thread thread : threads)
			thread.join();
		try {
			Object nothing = null;
			nothing.hashCode();
		} catch (NullPointerException error) {
			System.out.println("caught");
		}
		System.exit(6);
	}
}
