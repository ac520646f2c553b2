"""Your own training loop with a plain DataLoader: `hf.prepare` in the data set, `hf.pack` as the collate function."""

from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset

import hodgeformer as hf
from hodgeformer.data.synthetic import synthetic_figures


class Prepared(Dataset):
    def __init__(self, data: hf.DataSet, split: str, config: hf.PrepareConfig) -> None:
        self.data, self.samples, self.config = data, data.split(split), config

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, i: int) -> hf.PreparedMesh:
        mesh, labels = self.data.load(self.samples[i])
        prepared = hf.prepare(mesh, self.config)
        return prepared.with_target(prepared.from_file_order(labels, "f"))


def main(folder: Path, *, n_train: int = 24, epochs: int = 10) -> float:
    data = synthetic_figures(n_train=n_train, n_test=4, n_faces=400)
    config = hf.PrepareConfig(pose="frame")
    shape = {"task": "segmentation", "n_classes": len(data.classes), "blocks": "DD", "d_model": 48}
    model = hf.HodgeFormer(hf.ModelConfig(**shape, in_features=dict(config.widths.items())))
    loader = DataLoader(Prepared(data, "train", config), batch_size=4, shuffle=True, collate_fn=hf.pack)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for epoch in range(epochs):
        for batch in loader:
            loss = torch.nn.functional.cross_entropy(model(batch), batch.target, ignore_index=-1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch + 1}: loss {loss.item():.3f}")
    hf.Predictor.from_model(model.eval(), prepare=config, classes=data.classes).save_pretrained(folder)
    scores = hf.evaluate(folder, data)
    print(scores)
    return scores.main


if __name__ == "__main__":
    main(Path("example-own-loop"))
