"""nginx in front of Flower's SuperLink: it ends TLS and passes only what a registered node needs.

Whoever reaches a SuperLink's port can submit runs, register keys and fetch tasks. So the SuperLink listens on loopback, and
of what comes from outside the proxy passes POST requests to ten paths, compared byte by byte; all others get 403.

Flower's nodes try again after 503 and read 403 as the end of a run, so limits answer 503. Nothing that passes is written
to disk: a body of the largest size fits the buffer.
"""

import os
import shutil
from pathlib import Path

from fedrl.errors import FedRLError
from fedrl.organisations.addresses import Address
from fedrl.organisations.layout import ServerFiles
from fedrl.organisations.private_files import write_public

PATHS = (
    "activate-node", "deactivate-node", "send-node-heartbeat", "pull-messages", "push-messages", "get-run", "get-fab",
    "push-object", "pull-object", "confirm-message-received",
)  # fmt: skip
SBIN = "/usr/sbin:/usr/local/sbin:/sbin:/usr/local/bin"  # where nginx is, whatever the user's PATH

TEMPLATE = """\
# Written by `fedrl federation serve` at every start; changes are lost.
# All files are named relative to this one or to nginx's own folder (-p), so folders may have any name.
worker_processes 2;
pid nginx.pid;
lock_file nginx.lock;
error_log {error_log} warn;
events {{ worker_connections 1024; }}

http {{
  server_tokens off;
  default_type text/plain;

  # everything is logged but the two requests that every node repeats all day
  map "$status $uri" $is_logged {{
    default 1;
    "200 /v1/fleet/pull-messages" 0;
    "200 /v1/fleet/send-node-heartbeat" 0;
  }}
  log_format plain '$time_iso8601 $remote_addr "$request" $status $request_length $body_bytes_sent $request_time';
  access_log {access_log} plain if=$is_logged;

  client_body_temp_path body;
  proxy_temp_path proxy;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;

  # Flower sends arrays in pieces of 5 MiB
  client_max_body_size 8m;
  client_body_buffer_size 8m;
  proxy_max_temp_file_size 0;

  client_header_timeout 15s;
  client_body_timeout 30s;
  send_timeout 30s;
  keepalive_timeout 65s;
  reset_timedout_connection on;

  # for each address, behind which several sites may be
  limit_conn_zone $binary_remote_addr zone=connections:5m;
  limit_req_zone $binary_remote_addr zone=requests:5m rate=300r/s;
  limit_conn connections 64;
  limit_req zone=requests burst=600 nodelay;
  limit_conn_status 503;
  limit_req_status 503;

  upstream superlink {{
    server 127.0.0.1:{port} max_fails=0;
    keepalive 16;
    keepalive_timeout 4s;  # the SuperLink closes idle connections after 5 s
  }}

  server {{
    listen {listen} ssl;
    ssl_certificate {certificate};
    ssl_certificate_key {key};
    ssl_protocols TLSv1.2 TLSv1.3;
    ssl_ciphers ECDHE+AESGCM:ECDHE+CHACHA20;
    ssl_session_cache shared:sessions:1m;
    ssl_session_tickets off;

    location / {{ return 403; }}

    location ~ ^/v1/fleet/({paths})$ {{
      if ($request_method != POST) {{ return 403; }}
      # as it was sent: no "..", no "//", no "%2e", no query
      if ($request_uri !~ "^/v1/fleet/[a-z-]+$") {{ return 403; }}

      proxy_pass https://superlink;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host localhost;
      proxy_set_header X-Forwarded-For $remote_addr;
      proxy_set_header X-Forwarded-Proto https;
      proxy_connect_timeout 5s;
      proxy_ssl_protocols TLSv1.2 TLSv1.3;
      proxy_ssl_trusted_certificate {ca};
      proxy_ssl_verify on;
      proxy_ssl_name localhost;
      proxy_ssl_server_name on;
    }}
  }}
}}
"""


class ProxyError(FedRLError, ValueError):
    """The proxy cannot be started; the message says why."""


def configuration(files: ServerFiles, superlink_port: int, listen: Address) -> str:
    """nginx's configuration for a SuperLink on 127.0.0.1:`superlink_port`."""
    home, folder = configuration_file(files).parent, _folder(files)
    return TEMPLATE.format(
        port=superlink_port,
        listen=listen,
        paths="|".join(PATHS),
        certificate=os.path.relpath(files.certificate, home),
        key=os.path.relpath(files.key, home),
        ca=os.path.relpath(files.ca, home),
        access_log=os.path.relpath(access_log(files), folder),
        error_log=os.path.relpath(files.logs / "proxy.log", folder),
    )


def write(files: ServerFiles, superlink_port: int, listen: Address) -> Path:
    """Write the configuration, and make the folders that nginx needs."""
    for folder in (files.state, files.logs, _folder(files)):
        folder.mkdir(mode=0o700, exist_ok=True)
    write_public(configuration_file(files), configuration(files, superlink_port, listen).encode())
    return configuration_file(files)


def command(files: ServerFiles) -> list[str]:
    """nginx in the foreground; SIGTERM ends it. `write` comes first. It needs no rights but for ports below 1024."""
    return [*_program(files), "-g", "daemon off;"]


def checking_command(files: ServerFiles) -> list[str]:
    """nginx only reads its configuration and says what is wrong with it."""
    return [*_program(files), "-t", "-q"]


def program() -> str:
    found = shutil.which("nginx") or shutil.which("nginx", path=SBIN)
    if found is None:
        raise ProxyError(
            "the server needs nginx, which is not installed; install it: apt-get install nginx-light. To try a federation "
            "on one machine without it, add proxy = false to server.toml"
        )
    return found


def configuration_file(files: ServerFiles) -> Path:
    return files.state / "nginx.conf"


def access_log(files: ServerFiles) -> Path:
    """A line for every request, with its status."""
    return files.logs / "proxy_access.log"


def _folder(files: ServerFiles) -> Path:
    """Where nginx keeps its process id and its (empty) folders for temporary files."""
    return files.state / "nginx"


def _program(files: ServerFiles) -> list[str]:
    return [program(), "-p", f"{_folder(files).resolve()}/", "-c", str(configuration_file(files).resolve())]
