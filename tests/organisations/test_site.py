"""site.toml: what it may hold, and every mistake in it as one sentence."""

import pytest

from fedrl.organisations import agreement as agreements
from fedrl.organisations import site as sites
from fedrl.organisations.site import Refusals
from fedrl.organisations.tables import FileError

LEAST = 'site = "a"\nserver = "fed.example.org:8443"\n'


def read(home, text: str):
    (home / "site.toml").write_text(text, encoding="utf-8")
    return sites.read(home)


def test_the_least_that_must_be_said(tmp_path):
    site = read(tmp_path, LEAST)
    assert (site.name, site.server, site.clients, site.kind) == ("a", "fed.example.org:8443", 1, "gymnasium")
    assert site.path == [tmp_path]
    assert site.refuse == Refusals([], None, None)
    assert site.shared_test_seed is None


def test_all_that_may_be_said(tmp_path):
    text = LEAST + (
        'environment = "ward7.simulator:make_env"\nkind = "pettingzoo"\nclients = 3\npath = ["code", "/opt/wards"]\n'
        'threads = 2\nmodel = "model"\n[refuse]\nalgorithms = ["alone"]\nlargest_local_steps = 10\nsmallest_noise = 0.3\n'
    )
    site = read(tmp_path, text)
    assert [str(folder) for folder in site.path] == [f"{tmp_path}/code", "/opt/wards"]
    assert (site.environment, site.kind, site.clients, site.threads) == ("ward7.simulator:make_env", "pettingzoo", 3, 2)
    assert site.model == tmp_path / "model"
    assert site.refuse == Refusals(["alone"], 10, 0.3)


MISTAKES = [
    ('sit = "a"', "site.toml: there is no key 'sit'; did you mean site?"),
    ("clients = 0", "site.toml: clients must be from 1 to 10000, got 0; correct that line"),
    ("clients = true", "site.toml: clients expects a whole number, got True; correct that line"),
    ("clients = 2.0", "site.toml: clients expects a whole number, got 2.0; correct that line"),
    ("threads = -1", "site.toml: threads must be from 0 to 10000, got -1; correct that line"),
    ('kind = "gym"', "site.toml: kind must be gymnasium, pettingzoo, text, got 'gym'; correct that line"),
    ('kind = ["text"]', "site.toml: kind expects text, got ['text']; correct that line"),
    ('path = "."', "site.toml: path expects a list, got '.'; correct that line"),
    ("path = [1]", "site.toml: path expects a list of texts, got 1 in it; correct that line"),
    ("environment = 3", "site.toml: environment expects text, got 3; correct that line"),
    ("shared_test_seed = -1", "site.toml: shared_test_seed must be from 0 to 4294967295, got -1;"),
    ("refuse = 1", "site.toml: refuse expects a table, got 1; correct that line"),
    ("[refuse]\nalgorithm = []", "site.toml [refuse]: there is no key 'algorithm'; did you mean algorithms?"),
    ('[refuse]\nalgorithms = "alone"', "site.toml [refuse]: algorithms expects a list, got 'alone'; correct that line"),
    ("[refuse]\nalgorithms = [1]", "site.toml [refuse]: algorithms expects a list of texts, got 1 in it;"),
    ("[refuse]\nsmallest_noise = nan", "site.toml [refuse]: smallest_noise must be from 0 to 1000000000, got nan;"),
    ("[refuse]\nlargest_local_steps = 0", "site.toml [refuse]: largest_local_steps must be from 1 to "),
]


@pytest.mark.parametrize(("lines", "expected"), MISTAKES)
def test_a_mistake_is_a_sentence(tmp_path, lines, expected):
    with pytest.raises(FileError) as caught:
        read(tmp_path, f"{LEAST}{lines}\n")
    assert str(caught.value).startswith(f"{tmp_path}/{expected}")


@pytest.mark.parametrize("server", ["", "fed.example.org", "0.0.0.0:8443", "https://fed.example.org:8443"])
def test_a_server_has_a_host_and_a_port(tmp_path, server):
    with pytest.raises(FileError, match=f"{tmp_path}/site.toml: server is {server!r}, "):
        read(tmp_path, f'site = "a"\nserver = "{server}"\n')


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, "is not there; `fedrl federation init` writes it"),
        ('site = "a"\n', "has no server; add server = …, text"),
        ('server = "x:1"\n', "has no site; add site = …, text"),
        ("site = \n", "is not TOML: Invalid value"),
    ],
)
def test_a_file_that_cannot_be_used(tmp_path, text, expected):
    with pytest.raises(FileError) as caught:
        sites.read(tmp_path) if text is None else read(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path}/site.toml {expected}")


def test_a_site_must_be_one_of_the_agreement(tmp_path):
    agreed = agreements.parse("rounds = 1\nmethod.name = 'fedavg'\n[sites]\na = 1\nb = 2\n")
    sites.check_membership(read(tmp_path, LEAST), agreed)
    with pytest.raises(FileError, match="says site = 'c', and federation.toml has a, b; correct the name, or ask"):
        sites.check_membership(read(tmp_path, LEAST.replace('"a"', '"c"')), agreed)
    with pytest.raises(FileError, match="says site = 'A', and federation.toml has a, b"):
        sites.check_membership(read(tmp_path, LEAST.replace('"a"', '"A"')), agreed)
    with pytest.raises(FileError, match="says clients = 1, and federation.toml gives b 2; make them the same"):
        sites.check_membership(read(tmp_path, LEAST.replace('"a"', '"b"')), agreed)
