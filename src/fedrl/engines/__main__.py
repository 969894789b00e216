"""A worker process: `python -m fedrl.engines DESCRIPTOR`, started by `worker_process`."""

import sys

from fedrl.engines.worker import main

main(int(sys.argv[1]))
