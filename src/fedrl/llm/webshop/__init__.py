"""WebShop (Yao et al. 2022), one half of FedAgentGym (fedagent): a shop of text pages to search, browse and buy from.

It runs on WebShop's own three files or on a generated `catalogue` in the same format, and imports neither JAX nor torch.
"""

try:
    import bm25s  # noqa: F401
    import Stemmer  # type: ignore[import-not-found]  # noqa: F401
    import thefuzz  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"WebShop needs bm25s, PyStemmer and thefuzz, and {error.name} could not be imported ({error}): "
        "pip install 'fedrl[llm]'"
    ) from error
