"""`hodgeformer study soft-edges`: hard and soft scores of one model side by side."""

from __future__ import annotations

from hodgeformer.base.errors import ConfigError
from hodgeformer.cli.results import DataArgument, JsonOption, ModelArgument, SplitOption, conclude


def soft_edges(
    model: ModelArgument,
    data: DataArgument,
    split: SplitOption = "test",
    as_json: JsonOption = False,
) -> None:
    """Compare scores of hard and of soft labels.

    Scores faces with hard labels, the same without meshes known to be mislabeled, and edges with soft labels.

    In percent. A soft label of an edge on a border names both parts, and either is right; the literature on COSEG often
    reports this score, weighted by area, as MeshCNN does. It needs the files of `sseg/` beside the meshes.
    """
    from hodgeformer.data.open import open_dataset
    from hodgeformer.lab.study.soft_edges import soft_scores
    from hodgeformer.predict.predictor import Predictor
    from hodgeformer.training.evaluate import Evaluator, fitting

    predictor = Predictor.load(model, "cpu")
    checkpoint = predictor.checkpoint
    if checkpoint.model.element != "face":
        raise ConfigError(f"{model} labels each {checkpoint.model.element}; soft scores need a model that labels faces")
    dataset = fitting(open_dataset(data), checkpoint)
    samples = dataset.split(split)
    evaluator = Evaluator(dataset, samples, checkpoint.prepare, smooth=checkpoint.smooth)
    row = {"meshes": len(samples), **soft_scores(dataset, samples, list(evaluator.answers(predictor.model)))}
    conclude({"model": model, "data": dataset.name, "split": split, **row}, {dataset.name: [row]}, [], as_json=as_json)
