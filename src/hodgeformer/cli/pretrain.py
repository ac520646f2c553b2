"""`hodgeformer pretrain`: from meshes without labels to a model that `train --from` begins with."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from hodgeformer.cli.results import SettingsOption


def pretrain(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER",
            help="A folder with meshes, at any depth, or a TOML file as for train, of which the training meshes are "
            "taken; labels are not read.",
        ),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", help="The run folder to make; by default runs/NAME.", show_default=False)
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", help="Take model, inputs and training from this TOML file.", show_default=False),
    ] = None,
    settings: SettingsOption = None,
    faces: Annotated[
        str | None,
        typer.Option("--faces", help="Work on finer meshes at this many faces: auto, a number, original."),
    ] = None,
) -> None:
    """Learn shapes from meshes without labels: patches are hidden, and the model finds what was there.

    Then `hodgeformer train DATA --from RUN`. A stopped run goes on with `hodgeformer train --resume RUN`.
    """
    from hodgeformer.cli.train_display import display
    from hodgeformer.settings import read_toml
    from hodgeformer.train.distributed import joined
    from hodgeformer.train.fit import fit
    from hodgeformer.train.loop import Stopped

    run = out or Path("runs") / f"{source.resolve().stem}-pretrained"
    config = config or (source if source.suffix == ".toml" else None)
    tables = {} if config is None else read_toml(config)
    tables["data"] = {"name": "unlabelled", "path": source}
    tables["train"] = {"skip_bad": True, **tables.get("train", {})}
    said = [*(settings or []), *([f"prepare.faces={faces}"] if faces else [])]
    with joined() as processes:
        try:
            with display(quiet=not processes.is_first) as listener:
                outcome = fit(tables, run, settings=said, processes=processes, listener=listener)
        except Stopped as stopped:
            if processes.is_first:
                print(f"{stopped}; go on with: hodgeformer train --resume {run}", file=sys.stderr)
            raise typer.Exit(130) from None
    if processes.is_first:
        print(f"{outcome.epochs} epochs in {outcome.elapsed / 60:.1f} minutes")
        print(f"model: {outcome.chosen}\nnext: hodgeformer train DATA --from {run}")
