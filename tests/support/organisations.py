"""Federations between organisations in one process: the grid hands every message to the workers, as bytes and back."""

from pathlib import Path
from types import SimpleNamespace

import tomli_w
from flwr.app import Message
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from fedrl.organisations import agreement as agreements
from fedrl.organisations import node
from fedrl.organisations import site as sites
from fedrl.organisations.agreement import Agreement
from fedrl.organisations.frames import Frame
from fedrl.organisations.layout import ServerFiles
from fedrl.organisations.node_keys import create_pair
from fedrl.organisations.worker import Worker

CART_POLE = {
    "observations": {
        "type": "box",
        "shape": [4],
        "low": [-4.800000190734863, "none", -0.41887903213500977, "none"],
        "high": [4.800000190734863, "none", 0.41887903213500977, "none"],
        "dtype": "float32",
    },
    "actions": {"type": "discrete", "n": 2, "start": 0, "dtype": "int64"},
}
CLIFF = {
    "observations": {"type": "discrete", "n": 48, "start": 0, "dtype": "int64"},
    "actions": {"type": "discrete", "n": 4, "start": 0, "dtype": "int64"},
}


class Folders:
    """The folders of a server and its sites, without certificates, and what each party reads there."""

    def __init__(self, home: Path, agreed: dict, environments: dict[str, str | dict], seed: int | None = 0):
        self.server, text = ServerFiles(home / "server"), tomli_w.dumps(agreed)
        self.server.site_keys.mkdir(parents=True)
        self.server.agreement.write_text(text)
        self.homes = {}
        for name, environment in environments.items():
            self.homes[name] = home / name
            self.homes[name].mkdir()
            clients = agreed["sites"][name]
            own = {
                "site": name,
                "server": "127.0.0.1:1",
                "clients": clients if isinstance(clients, int) else clients["clients"],
            }
            own |= environment if isinstance(environment, dict) else {"environment": environment}
            own |= {} if seed is None else {"shared_test_seed": seed}
            (home / name / "federation.toml").write_text(text)
            (home / name / "site.toml").write_text(tomli_w.dumps(own))
            (home / name / "secret").write_text(name.encode().hex().ljust(64, "0"))
            (home / name / "secret").chmod(0o600)
            create_pair(home / name / "site.key", home / name / "site.pub", name)
            (self.server.site_keys / f"{name}.pub").write_bytes((home / name / "site.pub").read_bytes())
        self.agreement: Agreement = agreements.read(self.server.agreement)

    def worker(self, name: str) -> Worker:
        site = sites.read(self.homes[name])
        sites.check_membership(site, self.agreement)
        return Worker(site, agreements.read(site.files.agreement))


class LocalGrid(Grid):
    """Flower's grid, with the workers of all sites behind it. Later messages are answered first."""

    def __init__(self, folders: Folders, workers: dict[str, Worker]):
        for name in ("_task_id", "_run_id", "_node_id"):  # which Flower sets where it starts an app
            setattr(TaskIdentity, name, 1)
        self.workers, self.answers, self.sent = workers, {}, []
        self.nodes = {}
        for number, name in enumerate(workers, start=11):
            key = (folders.homes[name] / "site.pub").read_bytes()
            self.nodes[number] = SimpleNamespace(
                node_id=number, public_key=key, status="online", last_activated_at="1", name=name
            )

    def get_nodes(self):
        return list(self.nodes.values())

    def get_node_ids(self):
        return list(self.nodes)

    def push_messages(self, messages):
        for message in messages:
            message.metadata.__dict__["_message_id"] = message.object_id
            self.sent.append(message)
            there = message_from_proto(message_to_proto(message))
            answer = self.answered(self.nodes[there.metadata.dst_node_id].name, there)
            if answer is not None:
                self.answers[message.object_id] = message_from_proto(message_to_proto(answer))
        return [message.object_id for message in messages]

    def answered(self, site: str, message: Message) -> Message:
        call = "query" if message.metadata.message_type == "query" else "work"
        frame: Frame = self.workers[site].answer(node.to_frame(call, message.content))
        answer = Message(node.to_record(frame), reply_to=message)
        self.workers[site].afterwards()
        return answer

    def pull_messages(self, message_ids):
        return [self.answers.pop(name) for name in reversed(list(message_ids)) if name in self.answers]

    def set_run(self, run): ...
    def run(self): ...
    def create_message(self, *args, **options): ...
    def send_and_receive(self, messages, *, timeout=None): ...


class UnreliableGrid(LocalGrid):
    """A grid whose sites can be offline, connect anew, and answer late, never, twice, or with something else.

    `twist[site]` makes what arrives of each question about work and its true answer: another answer, an exception that
    fetching it raises, or None. `introduction[site]` does so for the questions who it is.
    """

    def __init__(self, folders: Folders, workers: dict[str, Worker]):
        super().__init__(folders, workers)
        self.twist, self.introduction, self.offline, self.pulled = {}, {}, set(), []

    def get_nodes(self):
        return [node for node in self.nodes.values() if node.name not in self.offline]

    def connect_anew(self, site: str):
        """Its node lost what it was doing."""
        node = next(node for node in self.nodes.values() if node.name == site)
        node.last_activated_at += "1"
        self.offline.discard(site)

    def push_messages(self, messages):
        if self.nodes[messages[0].metadata.dst_node_id].name in self.offline:
            return [None]
        return super().push_messages(messages)

    def answered(self, site: str, message: Message) -> Message | None:
        answer = super().answered(site, message)
        twists = self.introduction if message.metadata.message_type == "query" else self.twist
        if site not in twists:
            return answer
        answer = twists[site](message, answer)
        if isinstance(answer, Exception):
            self.answers[message.metadata.message_id] = answer
            return None
        return answer

    def deliver(self, message: Message, answer: Message):
        """An answer that was held back."""
        self.answers[message.metadata.message_id] = message_from_proto(message_to_proto(answer))

    def pull_messages(self, message_ids):
        found = super().pull_messages(message_ids)
        for answer in found:
            if isinstance(answer, Exception):
                raise answer
        self.pulled += found
        return found


class Clock:
    """Time that passes only when somebody sleeps; `at` says what happens when. Stands in for the module `time`."""

    def __init__(self):
        self.now, self.at = 1000.0, []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float):
        self.now += max(seconds, 0.1)
        for when, action in [one for one in self.at if one[0] <= self.now]:
            self.at.remove((when, action))
            action()
