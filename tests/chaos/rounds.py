"""A small real study, interrupted in every way, again and again: at the end, the bytes of an undisturbed run."""

import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from drivers import ARGUMENTS, catches, children, finish, jumping_clock, small_files, start, traces

from harness.records import trace_files

MOST_DELAY_S = 3.0
EXPECTED = {  # exit codes of a driver that was disturbed; 0: it was done before
    "kill": {0, -9}, "interrupt": {0, 130}, "terminate": {0, 143}, "full disk": {0, 2, 3}, "clock": {0},
    "worker": {0}, "two drivers": {0, 2}, "read-only": {0, 2, 3}, "tmpfs": {0, 2, 3},
}  # fmt: skip


class Round:
    """One folder of results and the faults it is put through."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        self.results, self.log, self.rng = folder / "results", folder / "log", rng
        self.problems: list[str] = []
        self.stop_s: list[float] = []

    def arguments(self, executor: str = "serial") -> list[str]:
        more = ["executor.n_jobs=2"] if executor == "local" else []
        return [*ARGUMENTS, f"results_dir={self.results}", f"executor={executor}", *more]

    def go(self, fault: str, executor: str = "serial", before: Callable[[], None] = lambda: None) -> int:
        return start(self.log, self.arguments(executor), before)

    def settle(self, fault: str, pid: int, by_default: int | None = None) -> None:
        """Wait for a driver; by_default: a signal that it got while it had no handler for it."""
        code = finish(pid)
        if code not in EXPECTED[fault] | ({-by_default} if by_default else set()):
            self.problems.append(f"{fault}: exit code {code}, log {self.log.read_text()[-800:]!r}")

    def wait(self) -> None:
        time.sleep(self.rng.uniform(0, MOST_DELAY_S))

    def signalled(self, fault: str, number: int) -> None:
        pid = self.go(fault, self.rng.choice(["serial", "serial", "local"]))
        self.wait()
        began = time.monotonic()
        # Before a command has its handler (nothing is begun then), and after it has put it away (all is done), SIGTERM
        # ends the process as it does any other, -15; a shell reports 143 for both.
        by_default = number if number == signal.SIGTERM and not catches(pid, number) else None
        os.kill(pid, number)
        self.settle(fault, pid, by_default)
        if number != signal.SIGKILL:
            self.stop_s.append(time.monotonic() - began)

    def worker(self) -> None:
        pid = self.go("worker", "local")
        for _ in range(2):
            self.wait()
            if found := children(pid):
                os.kill(self.rng.choice(found), signal.SIGKILL)
        self.settle("worker", pid)

    def two_drivers(self) -> None:
        pids = [self.go("two drivers") for _ in range(2)]
        for pid in pids:
            self.settle("two drivers", pid)

    def damage(self, how: str) -> None:
        """Change one of the records behind the study's back."""
        paths = trace_files(self.results)
        if not paths:
            return
        path = self.rng.choice(paths)
        content = bytearray(path.read_bytes())
        if how == "truncate":
            content = content[: self.rng.randrange(len(content))]
        else:
            content[self.rng.randrange(len(content))] ^= 1 << self.rng.randrange(8)
        path.write_bytes(content)

    def mounted(self, fault: str) -> None:
        """A disk of too few kilobytes, or one that can only be read; what lies there afterwards is copied back."""
        disk = self.results.parent / "disk"
        disk.mkdir()
        size, option = self.rng.choice([60, 120, 240]), "ro," if fault == "read-only" else ""
        command = ["mount", "-t", "tmpfs", "-o", f"{option}size={size}k", "tmpfs", str(disk)]
        if subprocess.run(command, capture_output=True).returncode:
            disk.rmdir()
            return
        kept, self.results = self.results, disk / "results"
        try:
            self.settle(fault, self.go(fault))
            for path in self.results.rglob("*"):
                target = kept / path.relative_to(self.results)
                if path.is_file() and not target.exists():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(path, target)
        finally:
            self.results = kept
            subprocess.run(["umount", str(disk)], check=True)
            disk.rmdir()

    def inject(self, fault: str) -> None:
        clock = [self.rng.uniform(-4e8, 4e8) for _ in range(7)]
        {
            "kill": lambda: self.signalled(fault, signal.SIGKILL),
            "interrupt": lambda: self.signalled(fault, signal.SIGINT),
            "terminate": lambda: self.signalled(fault, signal.SIGTERM),
            "full disk": lambda: self.settle(fault, self.go(fault, "serial", small_files(self.rng.randrange(20_000)))),
            "tmpfs": lambda: self.mounted(fault),
            "read-only": lambda: self.mounted(fault),
            "clock": lambda: self.settle(fault, self.go(fault, "serial", jumping_clock(clock))),
            "worker": self.worker,
            "two drivers": self.two_drivers,
            "truncate": lambda: self.damage("truncate"),
            "flip": lambda: self.damage("flip"),
        }[fault]()

    def end(self, reference: dict[str, str]) -> None:
        """Run the study to its end, undisturbed, and compare."""
        code = finish(start(self.log, self.arguments()))
        if code != 0:
            self.problems.append(f"the last run ended with {code}: {self.log.read_text()[-800:]!r}")
        found = traces(self.results)
        if found != reference:
            wrong = {k for k in found.keys() | reference.keys() if found.get(k) != reference.get(k)}
            self.problems.append(f"other bytes in {sorted(wrong)}")
        if left := list(self.results.rglob(".seeds-*.tmp")):
            self.problems.append(f"left behind: {left}")


FAULTS = ["kill", "interrupt", "terminate", "full disk", "tmpfs", "read-only", "clock", "worker", "two drivers"]
DAMAGES = ["truncate", "flip"]


def main(settings: dict[str, int]) -> list[str]:
    """Do the rounds, print what was survived and return what was not."""
    rng, counts, failures, stops = random.Random(settings["seed"]), Counter[str](), [], list[float]()
    with tempfile.TemporaryDirectory() as top:
        whole = Round(Path(top), rng)
        if finish(start(whole.log, whole.arguments())) != 0:
            return [f"the undisturbed run failed: {whole.log.read_text()[-800:]!r}"]
        reference = traces(whole.results)
        for number in range(settings["rounds"]):
            folder = Path(top) / str(number)
            folder.mkdir()
            one = Round(folder, rng)
            faults = [FAULTS[number % len(FAULTS)], *rng.sample(FAULTS, rng.randrange(2)), rng.choice(DAMAGES)]
            for fault in faults:
                one.inject(fault)
                counts[fault] += 1
            one.end(reference)
            failures += [f"round {number} ({', '.join(faults)}): {problem}" for problem in one.problems]
            stops += one.stop_s
            shutil.rmtree(folder)
    survived = settings["rounds"] - len({failure.split(" (")[0] for failure in failures})
    print(
        f"study: {survived} of {settings['rounds']} rounds ended with the bytes of {len(reference)} undisturbed traces"
    )
    print("  faults injected: " + ", ".join(f"{n} {fault}" for fault, n in sorted(counts.items())))
    if stops:
        print(f"  Ctrl-C and SIGTERM: stopped after {max(stops):.2f} s at most, {len(stops)} times")
    return failures
