"""An app of Flower that does nothing: every round, the server asks all nodes and waits for their answers."""

import json
import os
import time
from pathlib import Path

from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

NODES, LOOK = 2, 0.1  # as often as fedrl looks for answers
ROUNDS, OUT = "EMPTY_APP_ROUNDS", "EMPTY_APP_OUT"  # environment variables

server = ServerApp()
client = ClientApp()


@client.train()
def answer(message: Message, context: Context) -> Message:
    return Message(RecordDict({"answer": ConfigRecord({"round": 0})}), reply_to=message)


@server.main()
def main(grid: Grid, context: Context) -> None:
    while len(list(grid.get_node_ids())) < NODES:
        time.sleep(LOOK)
    took = []
    for number in range(int(os.environ[ROUNDS]) + 1):
        began = time.perf_counter()
        content = RecordDict({"asked": ConfigRecord({"round": number})})
        messages = [Message(content, node, MessageType.TRAIN) for node in grid.get_node_ids()]
        waited = set(grid.push_messages(messages))
        while waited:
            time.sleep(LOOK)
            waited -= {reply.metadata.reply_to_message_id for reply in grid.pull_messages(list(waited))}
        took.append(time.perf_counter() - began)
    Path(os.environ[OUT]).write_text(json.dumps(took[1:]))  # the first round fetches the app
