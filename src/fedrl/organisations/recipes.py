"""[recipe] of federation.toml: an arm of a recipe that is installed at the server and at every site.

[recipe]
name = "quickstart"            # of fedrl's own, of an installed package, or module:object
arm = "FedAvg"                 # one of its curves; the first if left out
settings = { clients = 3 }
"""

from fedrl.experiments import find
from fedrl.experiments.recipe import Arm
from fedrl.experiments.settings import configure
from fedrl.organisations.agreement import Agreement
from fedrl.organisations.from_tables import FILE
from fedrl.organisations.tables import FileError, Key, fields

KNOWN = {"name": Key((str,)), "arm": Key((str,), ""), "settings": Key((dict,), {})}


def arm_of(agreement: Agreement) -> Arm:
    """The arm, whose rounds and seeds do not count: those of the agreement do."""
    table = agreement.tables["recipe"]
    assert table is not None
    given = fields(table, KNOWN, f"{FILE} [recipe]")
    _check_alone(agreement)
    if find.file_of(given["name"]):
        raise FileError(
            f"{FILE} [recipe]: {given['name']} is a file, which may differ from machine to machine; install it as a module "
            "everywhere, and write name = module:object"
        )
    name = given["name"]
    recipe = find.recipe(name)
    arms = recipe.build(configure(recipe, paper=False, overrides=given["settings"], name=find.short(name)))
    arm = given["arm"] or next(iter(arms))
    if arm not in arms:
        raise FileError(f"{FILE} [recipe]: {name} has no arm {arm!r}; it has {', '.join(map(repr, arms))}")
    return arms[arm]


def _check_alone(agreement: Agreement) -> None:
    """A recipe says all of this itself: what stands beside it would have no effect."""
    others = [name for name, table in agreement.tables.items() if name != "recipe" and table is not None]
    others += ["privacy"] * (agreement.privacy is not None)
    if others:
        raise FileError(
            f"{FILE} has both [recipe] and [{others[0]}], which a recipe brings itself; remove [{others[0]}], or write the "
            "tables [method], [learner] and so on in place of [recipe]"
        )
