"""A site's randomness. It comes from a secret of its own, so whoever knows the run's seed knows nothing of it."""

import hashlib
import hmac
import json
import stat
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedrl import keys
from fedrl.keys import Key
from fedrl.organisations.site import Site
from fedrl.organisations.tables import FileError

LENGTH = 32  # bytes


class Secret(NamedTuple):
    """Either 32 random bytes or, in tests, a seed that all sites and a simulation share."""

    secret: bytes
    test_seed: int | None = None

    def key(self, run: str, address: tuple[str | int, ...], content: bytes) -> Key:
        """The key of one exchange, in place of the one that a simulation derives from the run's seed.

        `content` is a digest of what the server sent. Asked again for the same, the site draws the same; asked for something
        else under the same address, it draws anew, so that no two answers share noise that could be subtracted.
        """
        if self.test_seed is not None:
            return keys.of(keys.of_seed(self.test_seed), *address)
        return self._derived("exchange", run, *address, content.hex())

    def memory_key(self, run: str) -> Key:
        """The key of what clients remember before their first exchange."""
        if self.test_seed is not None:
            return keys.of_seed(self.test_seed)
        return self._derived("memory", run)

    def _derived(self, *address: str | int) -> Key:
        digest = hmac.new(self.secret, json.dumps(address).encode(), hashlib.sha256).digest()
        size = jax.random.key_data(jax.random.key(0)).size
        key: Key = jax.random.wrap_key_data(jnp.asarray(np.frombuffer(digest[: 4 * size], np.uint32)))
        return key


def read(site: Site) -> Secret:
    if site.shared_test_seed is not None:
        return Secret(b"", site.shared_test_seed)
    path = site.files.secret
    check_mode(path)
    try:
        secret = bytes.fromhex(path.read_text("ascii").strip())
    except ValueError:  # nor is it ASCII
        secret = b""
    except OSError as error:
        raise FileError(
            f"{path} cannot be read ({error.strerror}); it must be a file that this user may read"
        ) from None
    if len(secret) != LENGTH:
        raise FileError(f"{path} does not hold {LENGTH} bytes as hexadecimal digits; restore it from your backup")
    return Secret(secret)


def check_mode(path: Path) -> None:
    """Raise unless the private file is there and only its owner can read it."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise FileError(
            f"{path} is not there; restore it from your backup, or ask the operator for a new folder"
        ) from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise FileError(f"{path} can be read by others (mode {stat.S_IMODE(mode):o}); run: chmod 600 {path}")
