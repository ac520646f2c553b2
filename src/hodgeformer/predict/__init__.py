"""Prediction: load a model once; mesh in, labels and probabilities out, on the original mesh."""

from __future__ import annotations

from hodgeformer.predict.options import PredictOptions
from hodgeformer.predict.predictor import Predictor
from hodgeformer.predict.result import Result

__all__ = ["PredictOptions", "Predictor", "Result"]
