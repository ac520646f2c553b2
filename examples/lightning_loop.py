"""The loop of own_loop.py with Lightning, which adds devices, precision, logging and checkpoints.

Install it with: pip install lightning
"""

from pathlib import Path

import lightning
import torch
from own_loop import Prepared
from torch.utils.data import DataLoader

import hodgeformer as hf
from hodgeformer.data.synthetic import synthetic_figures


class Segmenter(lightning.LightningModule):
    def __init__(self, shape: hf.ModelConfig, rate: float = 2e-3) -> None:
        super().__init__()
        self.model, self.rate = hf.HodgeFormer(shape), rate

    def training_step(self, batch: hf.Batch, number: int) -> torch.Tensor:
        loss = torch.nn.functional.cross_entropy(self.model(batch), batch.target, ignore_index=-1)
        self.log("train_loss", loss, batch_size=len(batch.names))
        return loss

    def validation_step(self, batch: hf.Batch, number: int) -> None:
        known = batch.target >= 0
        right = (self.model(batch).argmax(dim=1) == batch.target)[known]
        self.log("val_accuracy", right.float().mean(), batch_size=len(batch.names))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), self.rate)


def main(folder: Path, *, n_train: int = 24, **trainer: object) -> hf.Predictor:
    data = synthetic_figures(n_train=n_train, n_val=4, n_test=4, n_faces=400)
    config = hf.PrepareConfig(pose="frame")
    widths = dict(config.widths.items())
    shape = hf.ModelConfig(
        task="segmentation", n_classes=len(data.classes), blocks="DD", d_model=48, in_features=widths
    )
    loaders = [
        DataLoader(Prepared(data, split, config), 4, shuffle=split == "train", collate_fn=hf.pack)
        for split in ("train", "val")
    ]
    segmenter = Segmenter(shape)
    lightning.Trainer(default_root_dir=folder, **trainer).fit(segmenter, *loaders)
    predictor = hf.Predictor.from_model(segmenter.model.eval(), prepare=config, classes=data.classes)
    print(hf.evaluate(predictor, data))
    return predictor


if __name__ == "__main__":
    main(Path("example-lightning"), max_epochs=10)
