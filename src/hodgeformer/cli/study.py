"""`hodgeformer study`: look into learned operators, and reproduce what the paper measures."""

from __future__ import annotations

import typer

from hodgeformer.cli.study_ablation import ablation
from hodgeformer.cli.study_efficiency import efficiency
from hodgeformer.cli.study_familiarity import familiarity
from hodgeformer.cli.study_operators import operators
from hodgeformer.cli.study_robustness import robustness

app = typer.Typer(
    help="Look into learned operators, and reproduce what the paper measures.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
for verb in (operators, robustness, familiarity, ablation, efficiency):
    app.command()(verb)
