"""What is in a house: objects, receptacles, what fits where, and the rooms games are played in.

Names and what fits where are ALFWorld's; the number of receptacles in a room and the objects in it are ours. Each kind of
room has 30 floor plans, as in ALFRED: the first six are never seen in training.
"""

from typing import NamedTuple

import numpy as np

KITCHENWARE = "Bowl ButterKnife Cup Fork Glassbottle Kettle Knife Ladle Mug Pan Plate Pot Spatula Spoon WineBottle"
FOOD = "Apple Bread Egg Lettuce Potato Tomato"
STATIONERY = "AlarmClock Book CD CellPhone CreditCard KeyChain Laptop Newspaper Pen Pencil RemoteControl Watch"
ORNAMENTS = "Box Candle Statue TissueBox Vase WateringCan"
WASHING = "Cloth DishSponge HandTowel PaperTowel SoapBar SoapBottle SprayBottle ToiletPaper"
SHAKERS = "PepperShaker SaltShaker"
SPORT = "BaseballBat BasketBall TennisRacket"
TABLE = " ".join((KITCHENWARE, FOOD, STATIONERY, ORNAMENTS, WASHING, SHAKERS, SPORT))
SEAT = "BasketBall Book Box CellPhone Cloth CreditCard KeyChain Laptop Newspaper Pillow RemoteControl"
DRESSER = (
    f"{STATIONERY} {ORNAMENTS} BasketBall Bowl Cloth Cup Glassbottle Mug Plate SprayBottle TennisRacket "
    "ToiletPaper WineBottle"
)
LAMPS = ("DeskLamp", "FloorLamp")

FITS = {  # receptacle: what may be put in or on it
    "ArmChair": SEAT,
    "BathtubBasin": "Cloth DishSponge HandTowel SoapBar",
    "Bed": "BaseballBat BasketBall Book CellPhone Laptop Newspaper Pillow TennisRacket",
    "Cabinet": "Book Bowl Box CD Candle Cloth Cup DishSponge Glassbottle HandTowel Kettle Ladle Mug Newspaper Pan "
    "PepperShaker Plate Plunger Pot SaltShaker SoapBar SoapBottle SprayBottle TissueBox ToiletPaper Vase WateringCan "
    "WineBottle",
    "Cart": "Candle Cloth DishSponge HandTowel Mug PaperTowel Plunger SoapBar SoapBottle SprayBottle Statue TissueBox "
    "ToiletPaper Vase",
    "CoffeeMachine": "Mug",
    "CoffeeTable": TABLE,
    "CounterTop": TABLE,
    "Desk": f"{DRESSER} SoapBottle",
    "DiningTable": TABLE,
    "Drawer": "Book ButterKnife CD Candle CellPhone Cloth CreditCard DishSponge Fork HandTowel KeyChain Knife Ladle "
    "Newspaper Pen Pencil PepperShaker RemoteControl SaltShaker SoapBar SoapBottle Spatula Spoon SprayBottle TissueBox "
    "ToiletPaper Watch WateringCan",
    "Dresser": DRESSER,
    "Fridge": f"{FOOD} Bowl Cup Glassbottle Mug Pan Plate Pot WineBottle",
    "GarbageCan": f"{FOOD} CD Cloth DishSponge HandTowel Newspaper PaperTowel Pen Pencil SoapBar SoapBottle SprayBottle "
    "TissueBox ToiletPaper WineBottle",
    "HandTowelHolder": "HandTowel",
    "LaundryHamper": "Cloth",
    "Microwave": "Apple Bowl Bread Cup Egg Glassbottle Mug Plate Potato Tomato",
    "Ottoman": SEAT,
    "Safe": "CD CellPhone CreditCard KeyChain Statue Vase Watch",
    "Shelf": "AlarmClock Book Bowl Box CD Candle CellPhone Cloth CreditCard Cup DishSponge Glassbottle HandTowel Kettle "
    "KeyChain Mug Newspaper PaperTowel Pen Pencil PepperShaker Plate Pot RemoteControl SaltShaker SoapBar SoapBottle "
    "SprayBottle Statue TissueBox ToiletPaper Vase Watch WateringCan WineBottle",
    "SideTable": TABLE,
    "SinkBasin": "Apple Bowl ButterKnife Cloth Cup DishSponge Egg Fork Glassbottle HandTowel Kettle Knife Ladle Lettuce "
    "Mug Pan Plate Pot Potato SoapBar Spatula Spoon Tomato",
    "Sofa": SEAT,
    "StoveBurner": "Kettle Pan Pot",
    "TVStand": "TissueBox",
    "Toaster": "",
    "Toilet": "Candle Cloth DishSponge HandTowel Newspaper PaperTowel SoapBar SoapBottle SprayBottle TissueBox "
    "ToiletPaper",
    "ToiletPaperHanger": "ToiletPaper",
    "TowelHolder": "Towel",
}
OPENABLE = ("Cabinet", "Drawer", "Fridge", "Microwave", "Safe")
LAMP_STANDS = ("Desk", "Dresser", "Shelf", "SideTable")
CAN_BE = {  # predicate of the domain: the objects it holds for
    "cleanable": "Apple Bowl ButterKnife Cloth Cup DishSponge Egg Fork Kettle Knife Ladle Lettuce Mug Pan Plate Pot "
    "Potato SoapBar Spatula Spoon Tomato",
    "heatable": "Apple Bread Cup Egg Mug Plate Potato Tomato",
    "coolable": "Apple Bowl Bread Cup Egg Lettuce Mug Pan Plate Pot Potato Tomato WineBottle",
    "sliceable": FOOD,
    "toggleable": " ".join(LAMPS),
}


class Room(NamedTuple):
    receptacles: dict[str, tuple[int, int]]  # class: fewest and most of them
    objects: str  # what is found there
    lamp: str = ""


ROOMS = {
    "Kitchen": Room(
        {
            "Cabinet": (3, 9),
            "CoffeeMachine": (1, 1),
            "CounterTop": (1, 3),
            "DiningTable": (0, 1),
            "Drawer": (2, 5),
            "Fridge": (1, 1),
            "GarbageCan": (1, 1),
            "Microwave": (1, 1),
            "Shelf": (0, 3),
            "SideTable": (0, 1),
            "SinkBasin": (1, 1),
            "StoveBurner": (2, 4),
            "Toaster": (1, 1),
        },
        f"{KITCHENWARE} {FOOD} {SHAKERS} DishSponge PaperTowel SoapBottle Vase",
    ),
    "LivingRoom": Room(
        {
            "ArmChair": (1, 2),
            "Cabinet": (0, 4),
            "CoffeeTable": (1, 1),
            "DiningTable": (0, 1),
            "Drawer": (0, 4),
            "Dresser": (0, 1),
            "GarbageCan": (1, 1),
            "Ottoman": (0, 1),
            "Safe": (0, 1),
            "Shelf": (0, 3),
            "SideTable": (1, 2),
            "Sofa": (1, 1),
            "TVStand": (0, 1),
        },
        f"Book Box CellPhone CreditCard KeyChain Laptop Newspaper Pillow Plate RemoteControl Watch {ORNAMENTS}",
        "FloorLamp",
    ),
    "Bedroom": Room(
        {
            "ArmChair": (0, 1),
            "Bed": (1, 1),
            "Cabinet": (0, 2),
            "Desk": (1, 2),
            "Drawer": (1, 6),
            "Dresser": (0, 1),
            "GarbageCan": (1, 1),
            "LaundryHamper": (0, 1),
            "Safe": (0, 1),
            "Shelf": (0, 5),
            "SideTable": (1, 2),
        },
        f"{STATIONERY} {SPORT} Bowl Cloth Mug Pillow TissueBox",
        "DeskLamp",
    ),
    "Bathroom": Room(
        {
            "BathtubBasin": (0, 1),
            "Cabinet": (1, 5),
            "Cart": (0, 1),
            "CounterTop": (1, 2),
            "Drawer": (0, 3),
            "GarbageCan": (1, 1),
            "HandTowelHolder": (1, 2),
            "LaundryHamper": (0, 1),
            "Shelf": (0, 2),
            "SideTable": (0, 1),
            "SinkBasin": (1, 2),
            "Toilet": (1, 1),
            "ToiletPaperHanger": (1, 1),
            "TowelHolder": (1, 1),
        },
        "Candle Cloth DishSponge HandTowel Plunger SoapBar SoapBottle SprayBottle TissueBox ToiletPaper Towel",
    ),
}
PLANS = range(1, 31)
UNSEEN_PLANS = range(1, 7)


def receptacles(kind: str, plan: int) -> tuple[str, ...]:
    """The receptacles of floor plan `plan` of this kind of room, class by class; always the same for the same plan."""
    rng = np.random.default_rng([sorted(ROOMS).index(kind), plan])
    counts = {name: int(rng.integers(low, high + 1)) for name, (low, high) in ROOMS[kind].receptacles.items()}
    return tuple(name for name, count in counts.items() for _ in range(count))


CONTENTS = {receptacle: frozenset(things.split()) for receptacle, things in FITS.items()}


def fits(receptacle: str, thing: str) -> bool:
    return thing in CONTENTS[receptacle]
