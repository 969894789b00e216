"""The common adapter of language agents in a site's folder, as peft and vLLM read it."""

import os
import tempfile
from pathlib import Path
from typing import Any

from fedrl.organisations import language
from fedrl.organisations.agreement import Agreement
from fedrl.organisations.site import Site


def save(site: Site, agreement: Agreement, theta: Any) -> None:
    """Each file is replaced at once; nothing is written where all parameters are trained, so that there is no adapter."""
    from fedrl.llm.adapter_files import save_adapter
    from fedrl.llm.models.loading import open_model
    from fedrl.llm.models.model import load_theta

    assert site.model is not None
    model, place = open_model(language.spec_of(agreement, site.model, site.model_threads)), site.files.adapter
    if model.lora is None:
        return
    load_theta(model, theta)
    place.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=site.home, prefix="adapter.") as scratch:
        save_adapter(model, Path(scratch))
        for file in Path(scratch).iterdir():
            os.replace(file, place / file.name)
