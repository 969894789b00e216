"""The worker of a site: does its clients' work for as long as `fedrl federation join` runs.

    python -m fedrl.organisations.worker DIR

It listens on a socket in the site's folder that only this user may open. One request is answered after the other.
"""

import json
import logging
import os
import re
import sys
from pathlib import Path
from typing import Any

from fedrl.engines import cache, leaves
from fedrl.engines.versions import about
from fedrl.errors import FedRLError
from fedrl.organisations import agreement as agreements
from fedrl.organisations import common_policy, events, frames, introduction
from fedrl.organisations import site as sites
from fedrl.organisations.agreement import Agreement
from fedrl.organisations.answers import LONGEST, MOST_WORDS
from fedrl.organisations.events import OVER, READY, Say, ignore
from fedrl.organisations.frames import Broken, Frame
from fedrl.organisations.last_words import BEGINS, MISTAKE
from fedrl.organisations.layout import SiteFiles
from fedrl.organisations.site import Site
from fedrl.organisations.site_work import Failure, Item, SiteWork, digest
from fedrl.organisations.tables import FileError
from fedrl.rollouts import host

LOG = logging.getLogger(__name__)
FORMAT = "fedrl.wire"  # of an array's bytes, as Flower records it
PATIENCE = 60.0  # seconds that whoever asks may stand still
RUN = r"[0-9a-f]{16}"  # the name of a run, which is that of a folder here
REMEMBERED = 64 << 20  # bytes of the last answer, which is given again if it is asked for again; failures are not


class Worker:
    """Answers requests: who is here ("query"), and the work of some clients ("work")."""

    def __init__(self, site: Site, agreement: Agreement, say: Say = ignore):
        self.site, self.agreement, self.say = site, agreement, say
        self.work = SiteWork(site, agreement)
        self.over = False  # the server has said so
        self.refusal: str | None = None  # the last sentence why the server cannot have this site
        self.last: tuple[str, Frame] | None = None  # the last request, by its digest, and its answer
        self.evaluated: tuple[str, Item, leaves.Leaves] | None = None  # the last evaluation; its policy is kept

    def answer(self, request: Frame) -> Frame:
        words = _asked(request)
        try:
            if "over" in words:
                self.over = True
                self.say(OVER)
                return _words(words, site=self.site.name)
            if request.header["call"] == "query":
                return self._introduce(words)
            return self._do(words, request)
        except FedRLError as error:
            LOG.warning("%s", error)
            return _words(words, refused=str(error))
        except Exception as error:
            LOG.exception("a request could not be answered")
            return _words(words, refused=f"the worker raised {type(error).__name__}; the log at this site says more")

    def afterwards(self) -> None:
        """What need not be done before the answer is sent."""
        if self.evaluated is None:
            return
        evaluated, self.evaluated = self.evaluated, None
        try:
            common_policy.save(self.work, *evaluated)
        except (FedRLError, OSError, ValueError):  # the answer was good, and the next evaluation brings another policy
            LOG.exception("the common policy could not be written to %s", self.site.files.policy)

    def _introduce(self, words: dict[str, Any]) -> Frame:
        """Which site this is. What differs from the server is a sentence, here and there."""
        refusal, before = introduction.mismatch(self.site, self.agreement, words), self.refusal
        self.refusal = refusal
        if refusal is not None:
            LOG.error("%s", refusal)
            if refusal != before:  # the server asks again whenever the node connects
                self.say(refusal)
            return _words(words, refused=refusal)
        self.say("the server knows this site; waiting for work")
        return _words(words, site=self.site.name, clients=len(self.work.own), about=json.dumps(about()))

    def _do(self, words: dict[str, Any], request: Frame) -> Frame:
        if not re.fullmatch(RUN, str(words["run"])):
            raise FileError(
                f"site {self.site.name}: {words['run']!r:.40} is no name of a run; update fedrl at the server"
            )
        if words["digest"] != self.agreement.digest:
            raise FileError(f"site {self.site.name}: this work belongs to another federation.toml; restart join")
        sent, content = _items(words, request)
        name = "".join(content)
        if self.last is None or self.last[0] != name:
            self.say("; ".join(_in_words(item) for item, _ in sent))
            self.last = (name, self._done(str(words["run"]), sent, content))
        answer = self.last[1]
        failed = answer.header["words"]["failures"]["list"] != "[]"
        if (
            failed or sum(map(len, answer.blobs)) > REMEMBERED
        ):  # what failed may have been mended when it is asked again
            self.last = None
        return Frame(answer.header | {"words": answer.header["words"] | _words(words).header["words"]}, answer.blobs)

    def _done(self, run: str, items: list[tuple[Item, leaves.Leaves]], content: list[str]) -> Frame:
        """The work of every item: an array record for each client, and the faults of those without a result."""
        arrays: dict[str, list[list[Any]]] = {}
        blobs: list[bytes] = []
        failures = []
        for place, ((item, sent), hashed) in enumerate(zip(items, content, strict=True)):
            for client, done in self.work.do(run, item, sent, bytes.fromhex(hashed)).items():
                if isinstance(done, Failure):
                    failures.append([place, client, done.kind, done.text[:LONGEST]])
                    continue
                name = f"{place}/{client}"
                arrays[name] = []
                for path, leaf in leaves.named("done", done).items():
                    blobs.append(leaves.packed(leaf))
                    arrays[name].append([path, str(leaf.dtype), list(leaf.shape), FORMAT])
            if item.exchange == "measure":
                self.evaluated = (run, item, sent)
        listed = json.dumps(failures)
        if len(listed) > MOST_WORDS:  # of a great many clients; the log here has the rest
            listed = json.dumps([[place, client, kind, ""] for place, client, kind, _ in failures])
        return Frame({"arrays": arrays, "words": {"failures": {"list": listed}}}, blobs)


def _items(words: dict[str, Any], request: Frame) -> tuple[list[tuple[Item, leaves.Leaves]], list[str]]:
    """The items of a request with the arrays that belong to each, and a digest of each."""
    blobs = iter(request.blobs)
    by_record = {name: [(array, next(blobs)) for array in arrays] for name, arrays in request.header["arrays"].items()}
    items: list[tuple[Item, leaves.Leaves]] = []
    digests = []
    for place, plain in enumerate(json.loads(words["items"])):
        pairs = by_record[str(place)]
        items.append((Item.of(plain), {array[0]: data for array, data in pairs}))
        digests.append(digest(plain, [array for array, _ in pairs], [data for _, data in pairs]).hex())
    return items, digests


def _in_words(item: Item) -> str:
    """Some work as a person reads it: "round 3: train"."""
    return f"round {int(item.address[1]) + 1}: {item.exchange}" if item.address[0] == "round" else item.exchange


def _asked(request: Frame) -> dict[str, Any]:
    """The words of a request; a `Broken` if it is none of ours."""
    try:
        words: dict[str, Any] = request.header["words"]["asked"]
        run, token, call, arrays = words["run"], words["token"], request.header["call"], request.header["arrays"]
        if all(isinstance(x, str) for x in (run, token, call)) and isinstance(arrays, dict):
            return words
    except (KeyError, TypeError):
        pass
    raise Broken("a request that is none")


def _words(asked: dict[str, Any], **more: Any) -> Frame:
    """An answer without arrays; it names the question, so that it cannot be taken for the answer to another one."""
    return Frame({"arrays": {}, "words": {"answer": {"run": asked["run"], "token": asked["token"], **more}}}, [])


def serve(worker: Worker, path: Path) -> None:
    """Answer until the server says that the run is over."""
    with frames.listen(path) as server:
        while not worker.over:
            connection, _ = server.accept()
            connection.settimeout(PATIENCE)
            with connection:
                try:
                    frames.send(connection, worker.answer(frames.receive(connection)))
                except OSError as error:  # `Broken` among them: it went away, stands still, or speaks of other things
                    LOG.warning("a request ended early (%s); if it was Flower's, it will come again", error)
            worker.afterwards()


def main(home: Path) -> int:
    say = events.channel()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    files = SiteFiles(home)
    try:
        site, agreement = sites.read(home), agreements.read(files.agreement)
        sites.check_membership(site, agreement)
        if site.threads:
            os.environ["FEDRL_THREADS"] = str(site.threads)
        cache.enable()
        files.state.mkdir(exist_ok=True, mode=0o700)
        worker = Worker(site, agreement, say)
        worker.work.try_environments()
    except FedRLError as error:
        print(f"{BEGINS}{' '.join(str(error).split())}", file=sys.stderr)
        return MISTAKE
    if site.shared_test_seed is not None:
        LOG.warning("shared_test_seed is set: everybody who knows it can repeat this site's episodes; for tests only")
    say(READY)
    try:
        serve(worker, files.socket)
    finally:
        host.close_all()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
