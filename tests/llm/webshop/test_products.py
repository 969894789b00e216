"""WebShop's three files: what is kept of a record, and what is said of one that is wrong."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrl.llm.webshop import stream
from fedrl.llm.webshop.products import Files, HumanInstruction, files_in, read_products


def test_loads_the_real_schema(sample):
    boots, coffee, desk, lamp = read_products(sample)
    assert boots.asin == "B00AAA0001"
    assert boots.name == "Hillbrook Walking Boots for Women, Water Resistant"
    assert boots.query == "women's boots"
    assert boots.options == {"size": ("6 wide", "7 | 8"), "color": ("navy", "burgundy")}
    assert (boots.price, boots.price_tag) == (59.95, "$59.95")
    assert boots.attributes == ("water resistant", "rubber sole")
    assert boots.instruction == "Find me water resistant, rubber sole women's boots"
    assert boots.human[0] == HumanInstruction(
        "i need water resistant boots in navy, size 7/8.", ("water resistant",), ("navy", "7 | 8")
    )
    assert (coffee.description, coffee.bullets, coffee.options) == ("", ("Slowly roasted",), {})
    assert coffee.price_tag == "$19.99 to $27.99"
    assert coffee.instruction is None
    assert coffee.human[0].options == (("grind", "fine"),)
    assert desk.price == 1299.0
    assert (lamp.price, lamp.price_tag, lamp.attributes) == (100.0, "$100.0", ())


def test_a_price_between_two_is_drawn_by_seed_and_asin(sample):
    def price(seed, limit=None):
        return read_products(sample, seed=seed, limit=limit)[1].price

    assert 19.99 < price(0) < 27.99
    assert price(0) == price(0, limit=2) != price(1)


def test_limit_counts_records(sample):
    assert [product.asin for product in read_products(sample, limit=5)] == ["B00AAA0001", "B00AAA0002"]


GOOD = {
    "asin": "B1",
    "name": "n",
    "category": "c",
    "query": "q",
    "product_category": "p",
    "full_description": "d",
    "small_description": [],
    "pricing": "$1",
    "customization_options": {},
}


def without(key):
    return {k: v for k, v in GOOD.items() if k != key}


@pytest.mark.parametrize(
    ("items", "said"),
    [
        ("", "an empty file came at the start, expected '[' of a JSON list of products"),
        ("[]", "holds an empty list, expected products"),
        ('{"a": 1}', "'{' came at the start, expected '['"),
        ("[" + json.dumps(GOOD), "the end of the file came after record 1"),
        ("[" + json.dumps(GOOD) + json.dumps(GOOD) + "]", "'{' came after record 1, expected ','"),
        ("[" + json.dumps(GOOD) + ", " + json.dumps(GOOD)[:-9], "record 2 stops in the middle"),
        ("[" + json.dumps(GOOD).replace('"name":', '"name"') + " " * 40 + "]", "record 1 is not JSON"),
        ("[7]", "record 1 is a int, expected an object"),
        (json.dumps([GOOD, without("query")]), "record 2 has no 'query', expected asin, name"),
        (json.dumps([GOOD | {"name": 3}]), "record 1 has 'name' of type int, expected text"),
        (json.dumps([GOOD | {"pricing": "soon"}]), "record 1 has 'pricing' = 'soon', expected \"$19.99\""),
        (json.dumps([GOOD | {"pricing": "$"}]), "record 1 has 'pricing'"),
        (json.dumps([GOOD | {"small_description": [1]}]), "has 'small_description' = [1], expected a list of texts"),
        (json.dumps([GOOD | {"customization_options": {"size": [{}]}}]), "without texts under 'value'"),
        (json.dumps([GOOD | {"customization_options": [1]}]), "of type list, expected an object"),
        (json.dumps([GOOD | {"asin": "nan"}]), "has no product whose asin"),
    ],
)
def test_malformed_items_are_named_with_record_and_next_move(tmp_path, items, said):
    (tmp_path / "items.json").write_text(items)
    (tmp_path / "ins.json").write_text("{}")
    with pytest.raises(ValueError, match="items.json") as error:
        read_products(Files(tmp_path / "items.json", tmp_path / "ins.json"))
    assert said in str(error.value)
    assert ";" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("instructions", "human", "said"),
    [
        ("[]", "{}", "ins.json: '[' came at the start, expected '{'"),
        ('{"B1": 3}', "{}", "ins.json: record 1 is a int"),
        ('{"B1": {"attributes": 3}}', "{}", "record 1 has 'attributes' = 3, expected a list of texts"),
        ('{"B1": {"instruction": "x"}}', "{}", "without 'instruction_attributes'"),
        ("{}", '{"B1": {}}', "human.json: record 1 is a dict, expected a list of instructions"),
        ("{}", '{"B1": [{"instruction_attributes": []}]}', "human.json: record 1 has no 'instruction'"),
        ("{}", '{"B1" []}', "human.json: '[' came after record 1, expected ':'"),
    ],
)
def test_malformed_instructions(tmp_path, instructions, human, said):
    files = Files(tmp_path / "items.json", tmp_path / "ins.json", tmp_path / "human.json")
    for path, text in zip(files, (json.dumps([GOOD]), instructions, human), strict=True):
        path.write_text(text)
    with pytest.raises(ValueError, match="json") as error:
        read_products(files)
    assert said in str(error.value)


def test_a_file_that_is_not_utf8_and_files_that_are_missing(tmp_path):
    (tmp_path / "items_shuffle.json").write_bytes(b'[{"asin": "\xff"}]')
    with pytest.raises(FileNotFoundError, match="0 files items_ins_v2\\*.json, expected one"):
        files_in(tmp_path)
    files = Files(tmp_path / "items_shuffle.json", tmp_path / "items_ins_v2.json")
    with pytest.raises(ValueError, match="is not UTF-8"):
        read_products(files)
    (tmp_path / "items_shuffle.json").write_text(json.dumps([GOOD]))
    with pytest.raises(FileNotFoundError, match="no file .*items_ins_v2.json, expected attributes by asin; give"):
        read_products(files)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.dictionaries(st.text(max_size=5), values), min_size=1, max_size=5), st.integers(1, 40), st.booleans()
)
def test_streaming_reads_what_json_reads(tmp_path_factory, content, chunk, escaped):
    """Whatever the place at which chunks cut the text."""
    path = tmp_path_factory.mktemp("stream") / "list.json"
    path.write_text(json.dumps(content, indent=1, ensure_ascii=escaped), encoding="utf-8", errors="surrogatepass")
    keyed = {str(i): each for i, each in enumerate(content)}
    other = path.with_name("object.json")
    other.write_text(json.dumps(keyed, ensure_ascii=escaped), encoding="utf-8", errors="surrogatepass")
    before, stream.CHUNK = stream.CHUNK, chunk
    try:
        assert list(stream.records(path, "things")) == list(enumerate(content, 1))
        assert {key: value for _, key, value in stream.members(other, "things")} == keyed
    finally:
        stream.CHUNK = before
