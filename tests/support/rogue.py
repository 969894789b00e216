"""`fedrl federation join` of a site that lies: its worker is honest, but what is sent is not.

    python rogue.py HOME

Round after round it tells one of LIES, in their order, and then an old answer once more.
"""

import sys
from pathlib import Path

from flwr.app import Message
from support.lies import LIES, asked_round

from fedrl.organisations import join, node, tasks
from fedrl.organisations.processes import Children

UNSPEAKABLE = ("another message", "unreadable")  # Flower's own node would not send them
TOLD = {name: lie for name, lie in LIES.items() if name not in UNSPEAKABLE}
REPLAYED = len(TOLD) + 1  # the round


def take_part(home: Path) -> None:
    honest = Children.start

    def start(self, name, command, environment, **options):
        if name == join.TASKS:
            command = [sys.executable, __file__, "tasks", *command[-2:]]
        return honest(self, name, command, environment, **options)

    Children.start = start
    join.join(home)


def lie_on(address: str, secret: Path) -> None:
    honest, told, answers = node.answer, [lie for lie, _ in TOLD.values()], []

    def answer(call: str, message: Message) -> Message:
        true = honest(call, message)
        round = asked_round(message) if call == "work" else None
        if round == REPLAYED:
            return Message(answers[0].content, reply_to=message)
        answers.append(true)
        return told[round - 1](message, true) if round is not None and round <= len(told) else true

    node.answer = answer
    tasks.serve(address, secret.read_bytes())


if __name__ == "__main__":
    if sys.argv[1] == "tasks":
        lie_on(sys.argv[2], Path(sys.argv[3]))
    else:
        take_part(Path(sys.argv[1]))
