"""Every Python block and every command of README and docs works: run at small size, or listed here as not run, and why."""

import shlex

import pytest
from support.doc_blocks import NOT_RUN, Block, blocks, inline_commands, pages, smaller
from support.doc_runs import check_order, run_page

from fedrl.engines import local_processes
from fedrl.rollouts import host

PAGES = {page: blocks(page) for page in pages()}
LEFT_OUT = [block for page in PAGES.values() for block in page if block.treatment in NOT_RUN]


@pytest.fixture(scope="module", autouse=True)
def _stop_workers():
    yield
    local_processes.stop()
    host.close_all()


@pytest.mark.parametrize("page", [page for page, found in PAGES.items() if found])
def test_a_page_does_what_it_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    run_page(PAGES[page])


@pytest.mark.parametrize("page", PAGES)
def test_commands_in_the_text_exist(page):
    for command in inline_commands(page):
        check_order(shlex.split(command.replace("…", ""))[1:], page)


@pytest.mark.parametrize("block", LEFT_OUT, ids=lambda block: block.place)
def test_not_run(block):
    pytest.skip(f"{block.place} {block.marker}")


def test_numbers_become_small():
    block = Block("page", 1, "python", "train(rounds=50, seeds=1, eta=0.5, steps=2_000, clients=100)", "clients=4")
    assert smaller(block) == "train(rounds=2, seeds=1, eta=0.5, steps=32, clients=4)"


def test_a_block_that_is_not_run_says_why():
    with pytest.raises(ValueError, match="say why"):
        _ = Block("page", 1, "python", "", "skip").treatment


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("import fedrl\nfedrl.no_such_thing(3)", AttributeError),
        ("from fedrl.learners import ppo\nppo(no_such_setting=3)", TypeError),
        ("from fedrl import no_such_package", ImportError),
    ],
)
def test_looking_up_names_notices(text, wrong):
    with pytest.raises(wrong):
        run_page([Block("page", 1, "python", text, "names, for this test")])


@pytest.mark.parametrize(
    "command", ["fedrl fly", "fedrl run no/such", "fedrl run quickstart --set no=3", "make nothing"]
)
def test_commands_that_do_not_exist_are_noticed(command):
    with pytest.raises(Exception, match=r"no recipe|no setting|fly|nothing"):
        run_page([Block("page", 1, "sh", command, "order, for this test")])
