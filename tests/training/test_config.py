"""Settings: typed, complete when written, and helpful about mistakes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hodgeformer.base.containers import KIND_OF, Element, PerElement
from hodgeformer.base.errors import ConfigError
from hodgeformer.data.census import Census, take_census
from hodgeformer.data.dataset import DataSet, Sample
from hodgeformer.data.labels import Values
from hodgeformer.data.open import DataConfig
from hodgeformer.mesh.elements import element_centers
from hodgeformer.nn.model import HodgeFormer
from hodgeformer.training.config import RunConfig, TrainConfig, read_config
from hodgeformer.training.distributed import Processes
from hodgeformer.training.plan import learning_rate, planned, reasons, working_faces
from hodgeformer.training.run_folder import RunFolder
from hodgeformer.training.setup import Setup, set_up
from meshes import icosphere
from tiny_models import tiny_checkpoint
from tiny_sets import parts, shapes

CONFIGS = sorted((Path(__file__).resolve().parents[2] / "configs").glob("*.toml"))


def plan(dataset: DataSet, **tables: dict[str, object]) -> RunConfig:
    return planned(read_config({"data": {"name": "figures"}, **tables}), take_census(dataset))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_configurations_of_the_project_parse_and_build(path: Path) -> None:
    config = read_config(path)
    dataset = parts() if config.data.name in ("human", "coseg") else shapes()
    assert HodgeFormer(config.model_for(dataset)).n_parameters > 100_000
    assert (config.train.epochs is None) != (config.train.minutes is None)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    config = plan(
        parts(), prepare={"max_neighbors": None}, train={"clip": None, "minutes": 1.5}, model={"updates": "ve"}
    )
    (tmp_path / "config.toml").write_text(config.toml())
    assert read_config(tmp_path / "config.toml") == config


def test_overrides_are_typed_and_win(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('[data]\nname = "figures"\n[train]\nlr = 1.0\nepochs = 5\n')
    overrides = [
        "train.lr=3e-4",
        "train.clip=0.5",
        "model.blocks=HHT",
        "prepare.max_neighbors=none",
        "train.minutes=2",
        "augment.rotation=none",
    ]
    config = read_config(tmp_path / "c.toml", overrides)
    assert (config.train.lr, config.train.clip, config.model["blocks"]) == (3e-4, 0.5, "HHT")
    assert config.prepare.max_neighbors is None and config.augment.rotation == "none"
    assert (config.train.epochs, config.train.minutes) == (None, 2)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("train.lrr=1", "did you mean 'lr'"),
        ("trian.lr=1", r"did you mean \[train\]"),
        ("model.blcks=HH", "did you mean 'blocks'"),
        ("model.n_classes=3", "determined by the data"),
        ("train.lr=fast", "lr"),
        ("train.lr=-1", "lr"),
        ("lr=1", r"table\.key=value"),
        ("train.lr", r"table\.key=value"),
    ],
)
def test_mistakes_are_explained(tmp_path: Path, override: str, message: str) -> None:
    (tmp_path / "c.toml").write_text('[data]\nname = "figures"\n')
    with pytest.raises(ConfigError, match=message):
        read_config(tmp_path / "c.toml", [override])


def test_many_mistakes_are_told_shortly() -> None:
    with pytest.raises(ConfigError, match=r"; and 48 more$") as refused:
        TrainConfig.parse({f"{i}{'x' * 300}": 1 for i in range(50)})
    assert len(str(refused.value)) < 1500


def test_a_run_has_one_length() -> None:
    with pytest.raises(ConfigError, match="not both"):
        plan(parts(), train={"epochs": 2, "minutes": 1})


OLD = {
    "data": {"name": "figures", "val_per_class": None, "even_people": None, "labels": "face", "element": None},
    "augment": {"warp": 0.0, "joints": 3, "cut_chance": 0.2, "swap": [], "slide": 0.05},
    "train": {
        "early_stop": None,
        "temperature": None,
        "ema": None,
        "batch_faces": None,
        "max_faces": None,
        "track": "tensorboard",
        "tensorboard": False,
        "epochs": 3,
    },
}


def test_files_that_name_settings_of_earlier_versions_are_read() -> None:
    current = {"data": {"name": "figures"}, "augment": {"slide": 0.05}, "train": {"epochs": 3}}
    assert RunConfig.parse(OLD) == RunConfig.parse(current)


@pytest.mark.parametrize("setting", ["augment.warp=0.1", "train.ema=0.9", "data.even_people=true"])
def test_settings_of_earlier_versions_cannot_be_set(setting: str) -> None:
    with pytest.raises(ConfigError, match="unknown setting"):
        read_config(OLD, [setting])


def test_a_plan_fills_what_is_open_and_keeps_what_is_said() -> None:
    open_plan = plan(parts(n_train=40))
    train = open_plan.train
    assert train.batch_size == 10 and train.epochs == 150 and train.class_weights is False
    assert train.lr == learning_rate(open_plan.model["d_model"])
    assert open_plan.prepare.pose == "frame_average" and open_plan.augment.rotation == "none"
    assert open_plan.prepare.size == "area" and "distances" in open_plan.prepare.features
    assert plan(parts(), prepare={"pose": "file"}).augment.rotation == "so3"
    said = plan(
        shapes(), train={"batch_size": 2, "epochs": 7, "lr": 1e-5}, model={"d_model": 48}, prepare={"pose": "frame"}
    )
    assert (said.train.batch_size, said.train.epochs, said.train.lr) == (2, 7, 1e-5)
    assert (said.model["d_model"], said.model["d_hidden"], said.prepare.pose) == (48, 96, "frame")
    assert said.train.class_weights is False


def scans(n: int, n_faces: int, shares: tuple[float, ...] = (0.2, 0.3, 0.5)) -> Census:
    """A census of large meshes, without the meshes; one small mesh is counted for all."""
    census = take_census(parts(n_train=1, n_test=0))
    size = PerElement(n_faces // 2, 3 * n_faces // 2, n_faces)
    (mesh,) = census.meshes
    return replace(census, meshes=n * (replace(mesh, n=size, shares=np.array(shares)),))


OPEN = read_config({"data": {"name": "figures"}})


def seams(width: float, element: Element = "face") -> Census:
    """Fine balls with a thin belt of its own class."""
    ball = icosphere(5)
    height = element_centers(ball, KIND_OF[element])[:, 2]
    labels = (np.abs(height - 0.3) < width).astype(np.int64)
    samples = tuple(Sample(f"ball{i}", replace(ball, name=f"ball{i}"), Values(labels)) for i in range(3))
    return take_census(DataSet("balls", "segmentation", element, {"train": samples}, ("ball", "belt")))


def test_a_thin_class_gets_more_faces_and_a_warning_where_they_are_too_few() -> None:
    clear, thin, edges = seams(0.2), seams(0.02), seams(0.02, "edge")
    assert planned(OPEN, clear).prepare.faces == 2000
    assert planned(OPEN, thin).prepare.faces == 4000  # at 2,000 two thirds of the belt would be lost
    for census, faces, is_warned in (
        (clear, 2000, False),
        (thin, 4000, False),
        (thin, 2000, True),
        (edges, 1000, True),
    ):
        config = planned(OPEN.replace(prepare={"faces": faces}), census)
        warned = [reason for reason in reasons(config, census) if "nearly vanish" in reason]
        assert bool(warned) is is_warned
        assert all("belt (1." in reason for reason in warned)
        assert not any("class_weights" in reason for reason in reasons(config, census))


def test_large_meshes_get_a_working_resolution_that_keeps_small_parts() -> None:
    assert working_faces(scans(6, 2500)) == "original"
    assert working_faces(scans(6, 13_776)) == 2000
    assert working_faces(scans(6, 13_776, (0.005, 0.3, 0.695))) == 5000
    assert working_faces(scans(6, 4_000, (0.005, 0.3, 0.695))) == "original"
    full = planned(OPEN, scans(6, 13_776))
    assert full.prepare.faces == 2000 and full.augment.resolution > 1
    assert any("13,776 faces are simplified to 2,000" in reason for reason in reasons(full, scans(6, 13_776)))
    said = planned(OPEN.replace(prepare={"faces": "auto", "seed": 3}), scans(6, 13_776)).prepare
    assert (said.faces, said.seed, said.size) == (2000, 3, "area")
    assert planned(OPEN.replace(prepare={"faces": "original"}), scans(6, 13_776)).prepare.faces == "original"


def test_the_time_chooses_model_and_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hodgeformer.training.plan.thread_count", lambda: 2)
    census = scans(60, 13_776)
    widths = [
        planned(OPEN.replace(train=TrainConfig(minutes=minutes)), census).model["d_model"] for minutes in (30, 0.5, 0.1)
    ]
    assert widths == sorted(widths, reverse=True) and len(set(widths)) == 3
    for n in (20, 60, 400):
        full = planned(OPEN, scans(n, 13_776))
        (told,) = (reason for reason in reasons(full, scans(n, 13_776)) if "minutes" in reason)
        minutes = int(re.search(r"about (\d+) minutes", told)[1])
        assert minutes <= 15, told


def test_symmetric_whole_shapes_are_mirrored_unless_their_classes_are_sides() -> None:
    census = take_census(shapes())
    sided = replace(census.dataset, classes=("left shoe", "right shoe"))
    twisted = tuple(replace(mesh, asymmetry=0.1) for mesh in census.meshes)
    assert planned(OPEN, census).augment.mirror == 0.5
    assert planned(OPEN.replace(augment={"mirror": 0.0}), census).augment.mirror == 0
    for other in (replace(census, dataset=sided), replace(census, meshes=twisted), take_census(parts())):
        assert planned(OPEN, other).augment.mirror == 0


def test_fine_tuning_is_slower_and_shorter() -> None:
    plain, tuned = (planned(OPEN, scans(20, 13_776), start).train for start in (None, tiny_checkpoint()))
    assert tuned.lr == pytest.approx(plain.lr / 3, rel=0.05) and tuned.epochs == round(plain.epochs / 3)


def test_the_rate_falls_with_the_width() -> None:
    assert learning_rate(64) == 3e-3 and learning_rate(32) == 3e-3
    assert learning_rate(96) == pytest.approx(1.6e-3) and learning_rate(256) == pytest.approx(3.8e-4)


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("train.seed=100000000000000000000", "less than"),
        ("data.seed=100000000000000000000", "less than"),
        ("prepare.seed=100000000000000000000", "less than"),
        ("augment.noise=1e300", "less than or equal to 10"),
        ("augment.swell=inf", "less than or equal to 10"),
        (f"model.blocks={'H' * 100_000}", "100,000 blocks are too many"),
        ("model.d_model=100000000000", "less than or equal to 1048576"),
        ("data.n_train=100000000000000", "less than or equal to 1000000"),
        (f"train.lr={'[' * 5000}", "nested too deeply"),
    ],
    ids=lambda text: text[:24],
)
def test_absurd_values_are_refused_at_once(setting: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told) as refused:
        read_config({"data": {"name": "figures"}}, [setting])
    assert len(str(refused.value)) < 1500


def test_a_deeply_nested_file_is_no_configuration(tmp_path: Path) -> None:
    (tmp_path / "deep.toml").write_text(f"x = {'[' * 5000}{']' * 5000}")
    with pytest.raises(ConfigError, match="nested too deeply"):
        read_config(tmp_path / "deep.toml")


def test_a_single_mesh_is_no_training_data(tmp_path: Path) -> None:
    scan = tmp_path / "scan.stl"
    scan.write_bytes(b"\xff" * 100)
    with pytest.raises(ConfigError, match=r"scan\.stl: a single mesh; give the folder"):
        read_config(scan)


@pytest.mark.parametrize("device", ["cuda", "cuda:99", "mps", "meta", "xpu", "nonsense"])
def test_a_device_that_is_not_there_is_named(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: False)
    with pytest.raises(ConfigError, match=f"device '{device}' is not available.*'cpu'"):
        TrainConfig(device=device).torch_device()
    assert TrainConfig(device="cpu").torch_device().type == "cpu"


def test_a_model_that_does_not_fit_into_memory_is_refused_before_it_is_made(tmp_path: Path) -> None:
    config = plan(parts(), model={"d_model": 2**19, "n_heads": 1, "blocks": "H"}, train={"epochs": 1})
    setup = Setup(config, take_census(parts()), RunFolder(tmp_path), Processes())
    with pytest.raises(ConfigError, match=r"parameters needs [\d,.]+ GB.*model\.d_model"):
        setup.learner()


@pytest.mark.parametrize("meshes", [parts, shapes])
def test_the_plan_has_the_star_of_the_paper(meshes: Callable[[], DataSet]) -> None:
    """Attention with signs in an H block, and diagonal stars in D blocks; what the stars are is written down."""
    config = plan(meshes())
    model = config.model_for(meshes())
    assert model.attends and model.signed_stars and model.diffusion_bound == 3.0
    assert not model.reads_order, "else four frames would be prepared"
    assert config.prepare.n_neighbors == 32 and config.model["star_bound"] == 3.0
    assert plan(meshes(), model={"updates": "e"}).model["blocks"] == "HHHH", "D blocks update vertices only"


def test_a_run_from_before_stars_were_learned_keeps_its_own(tmp_path: Path) -> None:
    folder, tables = RunFolder(tmp_path), plan(parts(), data={"name": "figures"}, model={"blocks": "D"}).model_dump()
    del tables["model"]["star_bound"]
    folder.create(RunConfig.parse(tables).toml())
    assert set_up(None, tmp_path).config.model["star_bound"] == 0.0


def test_families_that_were_left_out_are_scored_even_if_there_are_test_meshes(tmp_path: Path) -> None:
    dataset = parts(n_val=1, n_test=1)
    for hold_out, split in ((None, "test"), (("a",), "val")):
        config = plan(dataset).replace(data=DataConfig(name="human", hold_out=hold_out))
        assert Setup(config, take_census(dataset), RunFolder(tmp_path), Processes()).tested == split
