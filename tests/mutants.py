"""Plant the mistakes of `mutants.toml`, each alone, and report those that the tests named beside them do not notice.

    python tests/mutants.py                  all of them, after the same tests on the source as it is
    python tests/mutants.py critic kl        those with such a word in their name or file
    python tests/mutants.py --list           only say what there is

Every mistake is made in a copy of `src`; the working tree is only read. Exit code 1 if a mistake survived or has gone
stale: its old text is no longer there exactly once, or its tests cannot be run.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).parent
ROOT = TESTS.parent
KILLED, SURVIVED, STALE = "killed", "SURVIVED", "STALE"
FOUND = "import sys, importlib.util; sys.exit(not importlib.util.find_spec('fedrl').origin.startswith(sys.argv[1]))"


class Mutant(NamedTuple):
    name: str
    file: str  # under src/fedrl
    old: str  # occurs there exactly once
    new: str
    tests: list[str]  # under tests: files, or pytest's node ids
    why: str  # what it would do to a user


def read() -> list[Mutant]:
    return [Mutant(**entry) for entry in tomllib.loads((TESTS / "mutants.toml").read_text(encoding="utf-8"))["mutant"]]


def stale(mutant: Mutant) -> str:
    """Why the mistake cannot be planted in the source as it is now; empty if it can."""
    source = ROOT / "src" / "fedrl" / mutant.file
    if not source.is_file():
        return f"there is no file {mutant.file}"
    if (count := source.read_text(encoding="utf-8").count(mutant.old)) != 1:
        return f"the old text occurs {count} times in {mutant.file}"
    missing = [test for test in mutant.tests if not (TESTS / test.partition("::")[0]).is_file()]
    return f"there is no test file {missing[0]}" if missing else "" if mutant.tests else "it names no tests"


def timed(mutant: Mutant, limit: float) -> tuple[Mutant, str, str, float]:
    """`planted`, and how many seconds it took."""
    began = time.monotonic()
    verdict, said = planted(mutant, limit)
    return mutant, verdict, said, time.monotonic() - began


def planted(mutant: Mutant, limit: float) -> tuple[str, str]:
    """The verdict, and what there is to say of it."""
    if reason := stale(mutant):
        return STALE, reason
    with tempfile.TemporaryDirectory(prefix="fedrl-mutant-") as folder:
        copy = Path(folder) / "src"
        shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        target = copy / "fedrl" / mutant.file
        target.write_text(target.read_text(encoding="utf-8").replace(mutant.old, mutant.new), encoding="utf-8")
        return judged(copy, mutant.tests, limit)


def judged(source: Path, tests: list[str], limit: float, options: Sequence[str] = ()) -> tuple[str, str]:
    """Run the tests on the package in `source`. Only a failed test or a hang counts as noticed, not a broken import.

    `options` are pytest's.
    """
    path = os.pathsep.join(filter(None, (str(source), os.environ.get("PYTHONPATH"))))
    environment = os.environ | {"PYTHONPATH": path}
    # the package that is tested must be this one, else every mistake would survive
    subprocess.run([sys.executable, "-c", FOUND, str(source)], env=environment, cwd=ROOT, check=True)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "--durations=0",
        "-p",
        "no:cacheprovider",
        "--no-header",
        "-rfE",
    ]
    with subprocess.Popen(
        [*command, *options, *(str(TESTS / test) for test in tests)],
        env=environment, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    ) as run:  # fmt: skip
        try:
            said, _ = run.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            return KILLED, f"hung for {limit:.0f} s"
        finally:
            if run.poll() is None:
                os.killpg(run.pid, signal.SIGKILL)  # its own session: the tests and what they started
    if run.returncode > 1:
        return STALE, f"pytest ended with code {run.returncode}:\n{said[-2000:]}"
    failed = [line.removeprefix("FAILED ") for line in said.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return (SURVIVED, "") if run.returncode == 0 else (KILLED, failed[0][:150] if failed else "")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("words", nargs="*", help="only mistakes with one of these in their name or file")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds after which a mistake counts as a hang")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="so many at once (one per core)")
    parser.add_argument("--list", action="store_true", help="list them and plant none")
    asked = parser.parse_args()
    mutants = [it for it in read() if not asked.words or any(word in it.name + it.file for word in asked.words)]
    if asked.list:
        print(*(f"{it.name}\n    {it.file}: {it.old!r} -> {it.new!r}\n    {it.why}" for it in mutants), sep="\n")
        return 0
    tests = list(dict.fromkeys(test for it in mutants for test in it.tests if not stale(it)))
    shared_out = ["--numprocesses", str(asked.jobs), "--dist", "loadfile"]
    patience = asked.limit * max(1, len(mutants))
    verdict, said = judged(ROOT / "src", tests, patience, shared_out) if tests else (SURVIVED, "")
    if verdict != SURVIVED:
        print(f"the tests fail on the source as it is, so they can tell nothing: {said}")
        return 1
    found: dict[str, list[str]] = {KILLED: [], SURVIVED: [], STALE: []}
    with ThreadPoolExecutor(asked.jobs) as threads:
        runs = [threads.submit(timed, mutant, asked.limit) for mutant in mutants]
        try:
            for number, run in enumerate(as_completed(runs), start=1):
                mutant, verdict, said, seconds = run.result()
                found[verdict].append(mutant.name)
                print(f"{number:3}/{len(mutants)} {verdict:8} {seconds:4.0f} s  {mutant.name}", flush=True)
                print(*(f"{'':18}{line}" for line in said.splitlines()), sep="\n", flush=True)
        finally:
            threads.shutdown(cancel_futures=True)  # after Ctrl-C, those that have begun end
    print(f"\n{len(found[KILLED])} killed, {len(found[SURVIVED])} survived, {len(found[STALE])} stale")
    print(*(f"  {verdict}: {name}" for verdict in (SURVIVED, STALE) for name in found[verdict]), sep="\n")
    return 1 if found[SURVIVED] or found[STALE] else 0


if __name__ == "__main__":
    sys.exit(main())
