"""What the generated catalogue sells: five categories of twelve product types, their attributes and options.

Attributes of a category, and values of an option, are different enough for the reward to tell them apart, and no value
contains a colour word ("rattan" contains "tan"), to which the reward would reduce it.
"""

from typing import NamedTuple


class Category(NamedTuple):
    """A category: its root, departments with four types each, attributes any type may have, and options."""

    root: str
    departments: dict[str, tuple[str, ...]]
    attributes: tuple[str, ...]
    options: dict[str, tuple[str, ...]]


COLOUR = ("black", "white", "navy", "green", "burgundy", "purple", "orange", "beige")
SIZE = ("small", "medium", "large")
PACK = ("single", "twin pack", "family pack", "sampler")
AMOUNT = ("mini", "regular", "jumbo")

CATEGORIES = {
    "fashion": Category(
        "Clothing, Shoes & Jewelry",
        {
            "Shoes": ("running shoes", "ankle boots", "beach sandals", "house slippers"),
            "Clothing": ("denim jacket", "polo shirt", "maxi dress", "yoga leggings"),
            "Accessories": ("wool scarf", "crossbody bag", "leather belt", "sun hat"),
        },
        (
            "machine washable",
            "quick drying",
            "slim fit",
            "long lasting",
            "water resistant",
            "moisture wicking",
            "cotton lined",
            "light weight",
            "wrinkle free",
            "hand stitched",
            "uv protection",
            "vegan materials",
        ),
        {"color": COLOUR, "size": SIZE, "fit": ("regular", "petite", "tall")},
    ),
    "garden": Category(
        "Home & Kitchen",
        {
            "Furniture": ("coffee table", "bar stool", "storage shelf", "patio chair"),
            "Decor": ("area rug", "wall mirror", "window curtain", "throw pillow"),
            "Garden": ("bird feeder", "flower pot", "garden hose", "table lamp"),
        },
        (
            "easy to assemble",
            "heavy duty",
            "space saving",
            "eco friendly",
            "non slip",
            "scratch proof",
            "weather sealed",
            "hand crafted",
            "energy efficient",
            "child safe",
            "dishwasher ready",
            "mid century",
        ),
        {"color": COLOUR, "size": SIZE, "material": ("bamboo", "metal", "glass", "linen")},
    ),
    "beauty": Category(
        "Beauty & Personal Care",
        {
            "Skin Care": ("face serum", "body lotion", "eye gel", "clay mask"),
            "Hair Care": ("hair conditioner", "shampoo bar", "hair dryer", "styling wax"),
            "Makeup": ("lip balm", "nail polish", "makeup brush", "perfume spray"),
        },
        (
            "cruelty free",
            "paraben free",
            "dermatologist tested",
            "tea tree",
            "vitamin enriched",
            "anti aging",
            "natural ingredients",
            "coconut oil",
            "hyaluronic acid",
            "for sensitive skin",
            "long wearing",
            "easy to rinse",
        ),
        {"scent": ("vanilla", "citrus", "jasmine", "eucalyptus"), "size": AMOUNT, "pack": PACK},
    ),
    "electronics": Category(
        "Electronics",
        {
            "Audio": ("wireless earbuds", "bluetooth speaker", "studio headphones", "turntable player"),
            "Accessories": ("phone case", "power bank", "wall charger", "hdmi cable"),
            "Devices": ("action camera", "gaming mouse", "smart watch", "tablet stand"),
        },
        (
            "fast charging",
            "noise cancelling",
            "high speed",
            "plug and play",
            "shock absorbing",
            "gold plated",
            "hands free",
            "ultra slim",
            "dust sealed",
            "low latency",
            "tangle proof",
            "voice controlled",
        ),
        {"color": COLOUR, "style": ("basic", "bundle", "deluxe", "pro"), "pack": PACK},
    ),
    "food": Category(
        "Grocery & Gourmet Food",
        {
            "Snacks": ("granola bars", "trail mix", "beef jerky", "rice crackers"),
            "Beverages": ("ground coffee", "herbal tea", "protein powder", "cocoa drink"),
            "Pantry": ("pasta sauce", "peanut butter", "hot sauce", "maple syrup"),
        },
        (
            "gluten free",
            "non gmo",
            "low sodium",
            "certified organic",
            "keto friendly",
            "high protein",
            "plant based",
            "kosher approved",
            "shelf stable",
            "ready to eat",
            "rich in fiber",
            "small batch",
        ),
        {"flavor": ("original", "spicy", "honey", "garlic"), "size": AMOUNT, "pack": PACK},
    ),
}
BRANDS = tuple(
    a + b for a in ("Vel", "Tor", "Mar", "Lin", "Kes", "Nim", "Bel", "Dra") for b in ("ora", "ano", "ika", "umi")
)
