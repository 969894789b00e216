"""What Flower's node at a site hands its messages to, in place of Flower's own `flower-superexec` and `flwr-clientapp`.

    python -m fedrl.organisations.tasks ADDRESS SECRET_FILE

Flower's own programs install the app that came with a run, and start a process for each message that imports it. This one
stays, and whatever app came, it runs `node` and nothing else: no code that the server sends is ever installed or imported.
"""

import os
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from flwr.app import Context, Error, Message
from flwr.common.constant import ErrorCode, SubStatus
from flwr.proto.runtime_pb2 import AcquireTaskRequest, SendTaskHeartbeatRequest
from flwr.supercore.heartbeat import HeartbeatSender
from flwr.supercore.inflatable.inflatable_utils import ObjectPullError
from flwr.supercore.interceptors import (
    RuntimeTokenHttpInterceptor,
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)
from flwr.supercore.protobuf.client import ProtobufClientInterceptor
from flwr.supercore.retry import make_simple_http_retry_invoker
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message, push_task_output

from fedrl.organisations import node

PAUSE, BUSY = 0.1, 1.0  # seconds between looks for a task, and while one is under way
CLIENT_APP = "flwr-clientapp"  # the only kind of task that is taken
ACQUIRE = "/flwr.proto.Runtime/AcquireTask"


def serve(address: str, secret: bytes) -> None:
    """Do the tasks of the node at `address`, until it is gone.

    The node offers one at a time, unless it has dropped a message that it could not receive whole: nobody tells that task.
    """
    signed = SuperExecAuthHttpInterceptor(master_secret=secret, protected_methods=frozenset({ACQUIRE}))
    under_way: threading.Thread | None = None
    with connected(address, signed) as node_client:
        while True:
            offered = node_client.AcquireTask(AcquireTaskRequest(supported_task_types=[CLIENT_APP]))
            if offered.token:
                under_way = threading.Thread(target=do_or_die, args=(address, offered.token), daemon=True)
                under_way.start()
            if under_way is not None and under_way.is_alive():
                under_way.join(BUSY)
            else:
                time.sleep(PAUSE)


def do_or_die(address: str, token: str) -> None:
    """A task that fails in Flower's part ends this process: `join` starts it again, and the node with it."""
    try:
        do(address, token)
    except ObjectPullError as error:  # of a message that the node has dropped
        print(f"a message did not arrive whole: {error}", file=sys.stderr, flush=True)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def do(address: str, token: str) -> None:
    """Answer one message."""
    with connected(address, RuntimeTokenHttpInterceptor(token)) as client, alive(client):
        message, context, _, _ = pull_task_input(client)  # the run and its app are of no interest
        answer, failed = answered(message, context)
        try:
            push_message(client, answer, context)
        except httpx.HTTPError as error:
            failed = f"the answer could not be handed over: {error}"
        if failed:
            print(failed, file=sys.stderr, flush=True)
        push_task_output(client, context, SubStatus.FAILED if failed else SubStatus.COMPLETED, failed)


def answered(message: Message, context: Context) -> tuple[Message, str]:
    """The site's answer, or Flower's for an app that raised; and what was raised."""
    try:
        return node.app(message=message, context=context), ""
    except Exception as error:  # the server hears that it failed, the log here says why
        why = f"{type(error).__name__}: {error}"
        return Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, type(error).__name__), reply_to=message), why


@contextmanager
def connected(address: str, identity: ProtobufClientInterceptor) -> Iterator[RuntimeHttpClient]:
    version = RuntimeVersionHttpInterceptor(component_name=CLIENT_APP)
    client = RuntimeHttpClient.from_server_address(
        server_address=address,
        insecure=True,  # on loopback
        root_certificates=None,
        interceptors=[version, identity],
        retry_invoker=make_simple_http_retry_invoker(),
    )
    try:
        yield client
    finally:
        client.close()


@contextmanager
def alive(client: RuntimeHttpClient) -> Iterator[None]:
    """Tell the node that its task is being worked on, however long that takes."""

    def beat() -> bool:
        try:
            client.SendTaskHeartbeat(SendTaskHeartbeatRequest())
        except httpx.TransportError:
            return False  # again soon
        except httpx.HTTPStatusError as error:  # the node has given the task up: the answer will be refused
            print(f"the node does not want this answer any more ({error})", file=sys.stderr, flush=True)
        return True

    sender = HeartbeatSender(beat)
    sender.start()
    try:
        yield
    finally:
        if sender.is_running:
            sender.stop()


if __name__ == "__main__":
    serve(sys.argv[1], Path(sys.argv[2]).read_bytes())
