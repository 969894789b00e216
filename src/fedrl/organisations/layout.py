"""The files of a federation between organisations: what `fedrl federation init` writes, and what running leaves behind.

DIR/ca/         the certificate authority; its key is needed again only for new certificates, so keep it apart
DIR/server/     for the machine of the server
DIR/SITE/       one folder for each site, to hand over
"""

import os
from dataclasses import dataclass
from pathlib import Path

AGREEMENT = "federation.toml"  # agreed by all: the same bytes at the server and at every site
SITE = "site.toml"  # a site's own
SERVER = "server.toml"  # the operator's own
CA_CERTIFICATE = "ca.crt"
HOME_OF_SERVER, HOME_OF_SITE = (
    "FEDRL_FEDERATION_SERVER",
    "FEDRL_FEDERATION_SITE",
)  # environment variables for Flower's apps


@dataclass(frozen=True)
class _Files:
    """What the folders of the server and of a site have in common."""

    home: Path

    @property
    def agreement(self) -> Path:
        return self.home / AGREEMENT

    @property
    def ca(self) -> Path:
        return self.home / CA_CERTIFICATE

    @property
    def state(self) -> Path:
        """What Flower and fedrl's own programs need: database, configuration, secrets."""
        return self.home / "state"

    @property
    def logs(self) -> Path:
        return self.home / "logs"


class ServerFiles(_Files):
    """The folder of the server."""

    @property
    def settings(self) -> Path:
        return self.home / SERVER

    @property
    def certificate(self) -> Path:
        return self.home / "server.crt"

    @property
    def key(self) -> Path:
        return self.home / "server.key"

    @property
    def model(self) -> Path:
        """The folder of the language model, or a link to it, where agents have one; its config.json may be enough."""
        return self.home / "model"

    @property
    def site_keys(self) -> Path:
        """One public key per site, SITE.pub as OpenSSH writes it."""
        return self.home / "sites"

    @property
    def run(self) -> Path:
        """Log, checkpoints, policy and figures, as every run leaves them."""
        return self.home / "run"

    @property
    def status(self) -> Path:
        """Written while it runs, for `fedrl federation status`."""
        return self.home / "status.json"

    @property
    def written(self) -> tuple[Path, ...]:
        """The folders that a server writes to."""
        return self.home, self.state, self.logs, self.run


class SiteFiles(_Files):
    """The folder of a site."""

    @property
    def settings(self) -> Path:
        return self.home / SITE

    @property
    def key(self) -> Path:
        """The private key that proves to the server which site this is, as OpenSSH writes it."""
        return self.home / "site.key"

    @property
    def public_key(self) -> Path:
        return self.home / "site.pub"

    @property
    def secret(self) -> Path:
        """From which all randomness of this site is made."""
        return self.home / "secret"

    @property
    def memory(self) -> Path:
        """What its clients keep between rounds."""
        return self.home / "memory"

    @property
    def socket(self) -> Path:
        """Where the worker listens for Flower's processes, one of which is started for every message."""
        return self.state / "worker.sock"

    @property
    def policy(self) -> Path:
        """The common policy, as of the last evaluation."""
        return self.home / "policy.safetensors"

    @property
    def adapter(self) -> Path:
        """The same of language agents, as a folder of peft's."""
        return self.home / "adapter"

    @property
    def written(self) -> tuple[Path, ...]:
        """The folders that a site writes to."""
        return self.home, self.state, self.logs, self.memory


def server_home() -> ServerFiles:
    return ServerFiles(Path(os.environ[HOME_OF_SERVER]))


def site_home() -> SiteFiles:
    return SiteFiles(Path(os.environ[HOME_OF_SITE]))
