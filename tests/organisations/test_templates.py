"""The files that `init` writes say what the code does: they are read back, build, and so do the lines that are comments."""

import re

import gymnasium as gym
import pytest

from fedrl.environments import spaces
from fedrl.organisations import agreement as agreements
from fedrl.organisations import parts, server_settings, templates, versions, world
from fedrl.organisations import site as sites
from fedrl.organisations.addresses import Address
from fedrl.organisations.layout import ServerFiles
from fedrl.organisations.tables import FileError
from fedrl.organisations.templates import World

ADDRESS = Address("fed.example.org", 8443)


def federation(seen: World | None = None, **sites: int) -> str:
    return templates.federation(
        "wards", sites or {"a": 1, "b": 2}, seen or world.look(world.DEFAULT), versions.installed()
    )


def with_comments(text: str) -> str:
    """Every setting and table that is a comment becomes one."""
    return re.sub(r"^# (?=\[\w+\]$|\w+ = )", "", text, flags=re.M)


@pytest.fixture(scope="module")
def text() -> str:
    return federation()


def test_the_agreement_is_read_back(text):
    read = agreements.parse(text)
    assert (read.name, read.num_clients, read.max_episode_steps) == ("wards", 3, 500)
    assert list(read.sites) == ["a", "b"]
    assert read.versions == versions.installed()
    assert (read.rules.deadline, read.rules.quorum, read.rules.late) == (120.0, 1, "drop")


def test_the_agreement_builds_a_method(text):
    built = parts.of(agreements.parse(text))
    algorithm = built.method(built.federation)
    parts.check(algorithm)
    assert [exchange.name for exchange in algorithm.exchanges] == ["train"]
    assert built.federation.count == 3


def test_so_do_the_tables_that_are_comments(text):
    more = with_comments(text).replace('name = "ppo"', 'name = "ppo"\nfilters = "own"')
    read = agreements.parse(more)
    assert (read.privacy, read.tables["selection"]) == ((1.0, 0.5), {"name": "uniform", "clients": 2})
    built = parts.of(read)
    parts.check(built.method(built.federation))
    assert "# clip" not in more
    assert "\n# noise" not in more


def test_spaces_come_back_as_they_were(text):
    env = gym.make("CartPole-v1")
    expected = [spaces.describe(env.observation_space), spaces.describe(env.action_space)]
    assert parts.descriptions(agreements.parse(text)) == expected


def test_other_spaces_come_back_too():
    seen = gym.spaces.Dict(
        {"beds": gym.spaces.Box(-1.0, float("inf"), (2, 2)), "wait a bit": gym.spaces.Tuple([gym.spaces.Discrete(3)])}
    )
    done = gym.spaces.MultiDiscrete([2, 3])
    own = World("w:make", spaces.describe(seen), spaces.describe(done), 7)
    read = agreements.parse(federation(own))
    assert parts.descriptions(read) == [own.observations, own.actions]
    assert read.max_episode_steps == 7


def test_names_need_no_quoting_by_the_user():
    text = templates.federation('wards "7" \\ ä', {"a": 1}, world.look(world.DEFAULT), {})
    assert agreements.parse(text).name == 'wards "7" \\ ä'


def test_comments_stand_in_one_column(text):
    places = {line.index("  # ") + 2 for line in text.splitlines() if "  # " in line}
    assert places == {31}
    assert max(map(len, text.splitlines())) <= 120


def test_the_servers_settings_are_read_back(tmp_path):
    files = ServerFiles(tmp_path)
    files.settings.write_text(templates.server(ADDRESS, Address("2001:db8::7", 8443)))
    assert server_settings.read(files) == (ADDRESS, Address("2001:db8::7", 8443), True)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("listen", "lissen", "server.toml: there is no key 'lissen'; did you mean listen?"),
        ('"0.0.0.0:8443"', "8443", "server.toml: listen expects text, got 8443; correct that line"),
        (
            '"0.0.0.0:8443"',
            '"fed.example.org:8443"',
            "server.toml: listen is 'fed.example.org:8443', expected an IP address",
        ),
        (
            '"fed.example.org:8443"',
            '"0.0.0.0:1"',
            "server.toml: address is '0.0.0.0:1', to which no site can connect; ",
        ),
    ],
)
def test_a_mistake_in_the_servers_settings_is_a_sentence(tmp_path, old, new, expected):
    files = ServerFiles(tmp_path)
    files.settings.write_text(templates.server(ADDRESS, Address("0.0.0.0", 8443)).replace(old, new, 1))
    with pytest.raises(FileError) as caught:
        server_settings.read(files)
    assert str(caught.value).startswith(f"{tmp_path}/{expected}")


def test_a_sites_settings_are_read_back(tmp_path):
    text = templates.site("ward7", ADDRESS, 3, "ward7.simulator:make_env", "pettingzoo")
    (tmp_path / "site.toml").write_text(text)
    site = sites.read(tmp_path)
    assert (site.name, site.server, site.clients, site.kind) == ("ward7", str(ADDRESS), 3, "pettingzoo")
    assert site.environment == "ward7.simulator:make_env"
    assert site.refuse == ([], None, None)
    (tmp_path / "site.toml").write_text(with_comments(text))
    assert sites.read(tmp_path).refuse == (["alone"], 1000, 0.3)


def test_every_kind_is_named(tmp_path):
    text = templates.site("a", ADDRESS, 1, world.DEFAULT)
    assert all(f'"{kind}"' in text for kind in sites.KINDS)
