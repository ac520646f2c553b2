"""`hodgeformer shard`: a data set of many small files as a few large ones."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from hodgeformer.cli.results import AllowRemoteOption, DataArgument, QuietOption, bar


def shard(
    data: DataArgument,
    out: Annotated[Path, typer.Option(help="The data-set folder to create, with dataset.toml and an index.")],
    shards: Annotated[
        str, typer.Option(help="The folder of the archives, below --out, or a URL such as s3://bucket/x.")
    ] = "shards",
    megabytes: Annotated[int, typer.Option(min=1, help="The approximate size of an archive.")] = 256,
    allow_remote: AllowRemoteOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write a data set as tar files.

    Use it for more meshes than a file system handles well.

    `train`, `evaluate` and `check` accept the new folder like any other, and read single meshes from the archives.

    Exit code 0: all meshes were written. 1: some cannot be used and were skipped (each is named). 2: wrong use.
    """
    from hodgeformer.data.open import open_dataset
    from hodgeformer.data.shards import write_shards

    dataset = open_dataset(data, allow_remote=allow_remote)
    with bar("writing", quiet=quiet) as progress:
        census = write_shards(dataset, out, shards=shards, most_bytes=megabytes << 20, progress=progress)
    for problem in census.problems:
        print(f"hodgeformer: skipped: {problem.message}", file=sys.stderr)
    option = " --allow-remote" if "://" in shards else ""
    print(f"{len(census.meshes)} meshes: {out}\nnext: hodgeformer train {out}{option}")
    if census.problems:
        raise typer.Exit(1)
