"""federation.toml: what it may hold, and every mistake in it as one sentence that names the file and the key."""

import pytest

from fedrl.organisations import agreement as agreements
from fedrl.organisations.agreement import Member, Privacy, Rules
from fedrl.organisations.tables import FileError

LEAST = 'rounds = 3\nsites = { a = 1, b = { clients = 2, weight = 0.5 } }\nmethod.name = "fedavg"\n'


def test_the_least_that_must_be_said():
    read = agreements.parse(LEAST)
    assert (read.name, read.rounds, read.seed, read.gamma, read.episodes) == ("federation", 3, 0, 0.99, 10)
    assert read.sites == {"a": Member(range(0, 1), 1.0), "b": Member(range(1, 3), 0.5)}
    assert read.num_clients == 3
    assert [read.site_of(client) for client in range(3)] == ["a", "b", "b"]
    assert read.rules == Rules(300.0, 1, 3600.0, 100.0, 1e9, "drop")
    assert (read.privacy, read.spaces, read.versions) == (None, None, {})
    assert read.tables["method"] == {"name": "fedavg"}


def test_the_order_of_sites_numbers_the_clients():
    one, other = (
        agreements.parse(f"rounds = 1\nmethod.name = 'x'\n[sites]\n{sites}") for sites in ("a=1\nb=2", "b=2\na=1")
    )
    assert [one.site_of(client) for client in range(3)] == ["a", "b", "b"]
    assert [other.site_of(client) for client in range(3)] == ["b", "b", "a"]
    assert one.digest != other.digest


def test_all_that_may_be_said():
    read = agreements.parse(
        LEAST
        + 'gamma = 1\n[rules]\nquorum = 0.5\nlate = "wards.late:by_hour"\ndeadline = 30\n[privacy]\nclip = 1\nnoise = 0.5\n'
        '[versions]\npython = "3.11"\njax = "0.10.2"\n[spaces.actions]\ntype = "discrete"\nn = 2\n'
        '[spaces.observations]\ntype = "box"\nshape = [2]\nlow = [-inf, 1.0]\nhigh = "none"\n'
    )
    assert (read.gamma, read.rules.quorum, read.rules.deadline) == (1, 0.5, 30)
    assert read.privacy == Privacy(1, 0.5)
    assert read.versions == {"python": "3.11", "jax": "0.10.2"}
    assert read.spaces == {
        "observations": {"type": "box", "shape": [2], "low": [None, 1.0], "high": None, "dtype": "float32"},
        "actions": {"type": "discrete", "n": 2, "start": 0, "dtype": "int64"},
    }


TOP = [
    ("roundz = 3", "federation.toml: there is no key 'roundz'; did you mean rounds?"),
    ("xyzxyz = 3", "federation.toml: there is no key 'xyzxyz'; there are name, rounds, seed, "),
    ("rounds = 3.0", "federation.toml: rounds expects a whole number, got 3.0; correct that line"),
    ("rounds = true", "federation.toml: rounds expects a whole number, got True; correct that line"),
    ("rounds = '3'", "federation.toml: rounds expects a whole number, got '3'; correct that line"),
    ("rounds = 0", "federation.toml: rounds must be from 1 to 2147483647, got 0; correct that line"),
    ("rounds = 9999999999", "federation.toml: rounds must be from 1 to 2147483647, got 9999999999;"),
    (f"rounds = {'9' * 5000}", "federation.toml is not TOML: "),
    ("seed = -1", "federation.toml: seed must be from 0 to 4294967295, got -1;"),
    ("gamma = 0", "federation.toml: gamma must be from 1e-09 to 1, got 0;"),
    ("gamma = 1.01", "federation.toml: gamma must be from 1e-09 to 1, got 1.01;"),
    ("gamma = nan", "federation.toml: gamma must be from 1e-09 to 1, got nan;"),
    ("gamma = '0.9'", "federation.toml: gamma expects a number, got '0.9'; correct that line"),
    ("gamma = false", "federation.toml: gamma expects a number, got False; correct that line"),
    ("episodes = 0", "federation.toml: episodes must be from 1 to "),
    ("eval_every = 0", "federation.toml: eval_every must be from 1 to "),
    ("max_episode_steps = -1", "federation.toml: max_episode_steps must be from 0 to "),
    ("rescale = 1", "federation.toml: rescale expects true or false, got 1; correct that line"),
    ("name = 3", "federation.toml: name expects text, got 3; correct that line"),
    ("method = 'fedavg'", "federation.toml: method expects a table, got 'fedavg'; correct that line"),
    ("spaces = 3", "federation.toml: spaces expects a table, got 3; correct that line"),
    ("sites = ['a']", "federation.toml: sites expects a table, got ['a']; correct that line"),
]
TABLES = [
    ("rules", "dedline = 30", "federation.toml [rules]: there is no key 'dedline'; did you mean deadline?"),
    ("rules", "deadline = 9", "federation.toml [rules]: deadline must be from 10 to 10000000, got 9; correct that line"),
    ("rules", "deadline = inf", "federation.toml [rules]: deadline must be from 10 to 10000000, got inf;"),
    ("rules", f"deadline = {10**400}", "federation.toml [rules]: deadline must be from 10 to 10000000, got 1000"),
    ("rules", "deadline = true", "federation.toml [rules]: deadline expects a number, got True; correct that line"),
    ("rules", "patience = nan", "federation.toml [rules]: patience must be from 0 to 1000000000, got nan;"),
    ("rules", "largest_norm = -1", "federation.toml [rules]: largest_norm must be from 0 to 1e+30, got -1;"),
    ("rules", "quorum = 4", "[rules]: quorum is 4, and [sites] has 3 clients; lower it, or write 1.0 for all"),
    ("rules", "quorum = 0", "quorum must be a number of clients (3) or a share of those asked (0.5), got 0"),
    ("rules", "quorum = 1.5", "or a share of those asked (0.5), got 1.5"),
    ("rules", "quorum = 0.0", "or a share of those asked (0.5), got 0.0"),
    ("rules", "quorum = -0.5", "federation.toml [rules]: quorum must be from 0 to 2147483647, got -0.5;"),
    ("rules", "quorum = true", "federation.toml [rules]: quorum expects a whole number or a number, got True"),
    ("rules", "late = 'never'", '[rules]: late must be "drop", "inverse" or "module:function", got \'never\';'),
    ("rules", "late = 'a b:c'", 'late must be "drop", "inverse" or "module:function", got \'a b:c\';'),
    ("privacy", "", "federation.toml [privacy] has no clip; add clip = …, a number"),
    ("privacy", "clip = 0", "federation.toml [privacy]: clip must be from 1e-12 to 1000000000, got 0;"),
    ("privacy", "clip = 1\nnoise = -1", "federation.toml [privacy]: noise must be from 0 to 1000000000, got -1;"),
    ("privacy", "clip = 1\nsigma = 1", "federation.toml [privacy]: there is no key 'sigma'; there are clip, noise"),
    ("versions", "jax = 0.10", "federation.toml [versions]: jax expects text, got 0.1; correct that line"),
    ("versions", "jaxx = '1'", "federation.toml [versions]: there is no key 'jaxx'; did you mean jax?"),
    ("spaces", "observation = {}", "federation.toml [spaces]: there is no key 'observation'; did you mean observations?"),
    ("spaces", "observations = {}", "federation.toml [spaces] has no actions; add actions = …, a table"),
    ("spaces", "observations = 3\nactions = 4", "federation.toml [spaces]: observations expects a table, got 3;"),
]  # fmt: skip
SITES = [
    ("", "federation.toml [sites] is empty; name every site and its number of clients, such as ward7 = 1"),
    ("a = 0", "federation.toml [sites] a: clients must be from 1 to 10000, got 0;"),
    ("a = 1.0", "federation.toml [sites] a: clients expects a whole number, got 1.0;"),
    ("a = true", "federation.toml [sites] a: clients expects a whole number, got True;"),
    ("a = '1'", "federation.toml [sites] a: clients expects a whole number, got '1';"),
    ("a = { client = 1 }", "federation.toml [sites] a: there is no key 'client'; did you mean clients?"),
    ("a = { weight = 0 }", "federation.toml [sites] a: weight must be from 1e-09 to 1000000000, got 0;"),
    ("a = { weight = inf }", "federation.toml [sites] a: weight must be from 1e-09 to 1000000000, got inf"),
    ("a = 1\na = 2", "federation.toml is not TOML: Cannot overwrite a value"),
    (
        "Ward = 1\nward = 1",
        "federation.toml [sites]: 'ward' is the name of a second site ('Ward' is there, and capitals do not",
    ),
    ("server = 1", "federation.toml [sites]: 'server' cannot name a site; begin with a letter or digit, "),
    ("CA = 1", "federation.toml [sites]: 'CA' cannot name a site;"),
    ("'../a' = 1", "federation.toml [sites]: '../a' cannot name a site;"),
    ("'' = 1", "federation.toml [sites]: '' cannot name a site;"),
    ('"a\\n" = 1', "federation.toml [sites]: 'a\\n' cannot name a site;"),
    ("'-a' = 1", "federation.toml [sites]: '-a' cannot name a site;"),
    ("'wärd' = 1", "federation.toml [sites]: 'wärd' cannot name a site;"),
    ("'٣' = 1", "federation.toml [sites]: '٣' cannot name a site;"),
    (
        f"{'a' * 65} = 1",
        "cannot name a site; begin with a letter or digit, go on with letters, digits, - and _ (64 at most)",
    ),
]


def refused(text: str) -> str:
    with pytest.raises(FileError) as caught:
        agreements.parse(text)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert len(sentence) < 420
    return sentence


@pytest.mark.parametrize(("line", "expected"), TOP)
def test_a_mistake_on_top(line, expected):
    key = line.split()[0]
    others = [one for one in LEAST.splitlines() if one.split(".")[0].split()[0] != key]
    assert refused("\n".join([line, *others])).startswith(expected)


@pytest.mark.parametrize(("table", "lines", "expected"), TABLES)
def test_a_mistake_in_a_table(table, lines, expected):
    assert expected in refused(f"{LEAST}[{table}]\n{lines}\n")


@pytest.mark.parametrize(("lines", "expected"), SITES)
def test_a_mistake_about_sites(lines, expected):
    assert expected in refused(f"rounds = 3\nmethod.name = 'fedavg'\n[sites]\n{lines}\n")


@pytest.mark.parametrize("missing", ["rounds", "sites"])
def test_what_is_missing_is_named(missing):
    text = "\n".join(line for line in LEAST.splitlines() if not line.startswith(missing))
    assert refused(text).startswith(f"federation.toml has no {missing}; add {missing} = …, ")


def test_a_method_or_a_recipe_is_needed():
    text = LEAST.replace('method.name = "fedavg"\n', "")
    assert refused(text).startswith('federation.toml has no [method]; add one, such as name = "fedavg", or a [recipe]')
    assert agreements.parse(text + 'recipe.name = "quickstart"\n').tables["recipe"] == {"name": "quickstart"}


def test_a_share_of_all_is_not_more_than_there_are():
    assert agreements.parse(LEAST + "rules.quorum = 1.0\n").rules.quorum == 1.0
    assert agreements.parse(LEAST + "rules.quorum = 3\n").rules.quorum == 3


SPACES = [
    ("type = 'box'\nshape = [1]\nlow = 0\nhigh = 1", "type = 'bax'", "needs a type, one of box, discrete, "),
    ("type = 'box'\nshape = [1]\nlow = 0\nhigh = 1", "shape = 3", "shape expects a list, got 3; correct that line"),
    (
        "type = 'box'\nshape = [1]\nlow = 0\nhigh = 1",
        "shape = [-1]",
        "shape expects a list of whole numbers, got [-1];",
    ),
    ("type = 'box'\nshape = [1]\nlow = 0\nhigh = 1", "low = [0, 0]", "low has 2 bounds, and the shape [1] 1 entries; "),
    ("type = 'box'\nshape = [1]\nlow = 0\nhigh = 1", "low = nan", "low must be finite, got nan; correct that line"),
    (
        "type = 'box'\nshape = [1]\nlow = 0\nhigh = 1",
        "high = 'inf'",
        "expects numbers, or \"none\" for no bound, got 'inf';",
    ),
    (
        "type = 'box'\nshape = [1]\nlow = 0\nhigh = 1",
        "high = [true]",
        'or "none" for no bound, got True; correct that line',
    ),
    ("type = 'box'\nshape = [1]\nlow = 0\nhigh = 1", "dtype = 'f4'", "dtype must be one of float16, float32, "),
    (
        "type = 'box'\nshape = [1]\nlow = 0\nhigh = 1",
        "n = 3",
        "there is no key 'n'; there are type, shape, low, high, dtype",
    ),
    ("type = 'discrete'\nn = 2", "n = 'x'", "n expects a whole number, got 'x'; correct that line"),
    ("type = 'discrete'\nn = 2", "n = 0", "n must be from 1 to 2147483647, got 0; correct that line"),
    (
        "type = 'multi_discrete'\nnvec = [2]\nstart = [0]",
        "nvec = [2.0]",
        "nvec expects a list of whole numbers, got [2.0];",
    ),
    ("type = 'tuple'\nspaces = []", "spaces = [{ type = 3 }]", " 0 needs a type, one of box, discrete, "),
    (
        "type = 'dict'\nspaces = {}",
        "spaces = { arm = { type = 'discrete' } }",
        " arm has no n; add n = …, a whole number",
    ),
    ("type = 'dict'\nspaces = {}", "spaces = { arm = 3 }", " arm needs a type, one of "),
]


@pytest.mark.parametrize(("good", "line", "expected"), SPACES)
def test_a_mistake_in_a_space(good, line, expected):
    actions = "[spaces.actions]\ntype = 'multi_binary'\nshape = [2]\n"
    agreements.parse(f"{LEAST}{actions}[spaces.observations]\n{good}\n")
    kept = [one for one in good.splitlines() if one.split()[0] != line.split()[0]]
    bad = "\n".join([line, *kept])
    sentence = refused(f"{LEAST}{actions}[spaces.observations]\n{bad}\n")
    assert sentence.startswith("federation.toml [spaces.observations]")
    assert expected in sentence


@pytest.mark.parametrize("change", [lambda x: b"\xef\xbb\xbf" + x, lambda x: x.replace(b"\n", b"\r\n")])
def test_an_editor_on_windows_changes_nothing(tmp_path, change):
    """Neither a mark in front nor other line endings make it another agreement."""
    one, other = tmp_path / "one.toml", tmp_path / "other.toml"
    one.write_bytes(LEAST.encode())
    other.write_bytes(change(LEAST.encode()))
    assert agreements.read(one).digest == agreements.read(other).digest
    assert agreements.read(other) == agreements.read(one)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "is not there; `fedrl federation init` writes it, or ask the operator for it"),
        (b"rounds = ", "is not TOML: Invalid value (at end of document); correct that line"),
        (LEAST.encode("utf-16"), "is not text in UTF-8 (invalid start byte at byte 0); save it as UTF-8"),
        (b"name = '\xe4'", "is not text in UTF-8 (invalid continuation byte at byte 8); save it as UTF-8"),
        (b"", "has no rounds; add rounds = …, a whole number"),
    ],
)
def test_a_file_that_cannot_be_read(tmp_path, content, expected):
    file = tmp_path / "federation.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(FileError) as caught:
        agreements.read(file)
    assert str(caught.value).startswith(f"{file} {expected}")


def test_a_folder_is_not_a_file(tmp_path):
    with pytest.raises(
        FileError, match=r"cannot be read \(Is a directory\); it must be a file that this user may read"
    ):
        agreements.read(tmp_path)


def test_where_two_agreements_differ():
    here = agreements.parse(LEAST)
    assert agreements.difference(here, LEAST.replace("3", "4")) == "line 1 is 'rounds = 3' here and 'rounds = 4' there"
    assert agreements.difference(here, LEAST + "seed = 1\n") == "3 lines here, 4 there"


def test_a_comment_is_shown_only_if_it_is_what_differs():
    line, other = "rounds = 3      # as agreed in March", "rounds = 4      # as agreed in March"
    here = agreements.parse(LEAST.replace("rounds = 3", line))
    assert agreements.difference(here, LEAST.replace("rounds = 3", other)).endswith(
        "line 1 is 'rounds = 3' here and 'rounds = 4' there"
    )
    assert agreements.difference(here, LEAST.replace("rounds = 3", line.replace("March", "May"))).endswith(
        "line 1 is 'rounds = 3 # as agreed in March' here and 'rounds = 3 # as agreed in May' there"
    )
    long = agreements.difference(here, LEAST.replace("rounds = 3", f"rounds = {'9' * 200}"))
    assert long.endswith(f" and 'rounds = {'9' * 71} …' there")
