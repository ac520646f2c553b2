"""Every number that decides the shape of a model."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from hodgeformer.base.containers import KIND_OF, KINDS, Backend, Element, ElementKind, PerElement, Task
from hodgeformer.base.settings import Settings
from hodgeformer.kernels.elimination import N_TIMES
from hodgeformer.mesh.features import PAPER_GROUPS, feature_widths

Stars = Literal["learned", "barycentric", "galerkin"]
_MOST_BLOCKS = 256
Size = Annotated[int, Field(ge=1, le=2**20)]

StarName = Literal["star0_inv", "star1", "star1_inv", "star2"]
STAR_KIND: dict[StarName, ElementKind] = {"star0_inv": "v", "star1": "e", "star1_inv": "e", "star2": "f"}
"""The kind of element that a star acts on, and whose features a learned one reads."""
OPERATOR_STARS: dict[ElementKind, tuple[StarName, ...]] = {
    "v": ("star0_inv", "star1"),
    "e": ("star0_inv", "star1", "star1_inv", "star2"),
    "f": ("star1_inv", "star2"),
}
"""The stars of L_v, L_e and L_f."""


class ModelConfig(Settings):
    """The model. Stored in every checkpoint."""

    task: Task = Field(description="What the model predicts: classes (of meshes or of elements) or numbers.")
    n_classes: Size = Field(description="The number of classes, or of values in a regression.")
    element: Element = Field(  # always filled in from the task where it is not given
        default="face",
        description="What one output belongs to. By default the face in a segmentation, otherwise the whole mesh.",
    )
    blocks: str = Field(
        default="HHHHHHTT",
        description="The stack of blocks, one letter each: H for HodgeFormer, T for Transformer, D for diffusion.",
    )
    updates: str = Field(
        default="v",
        description="The kinds of elements whose features the blocks update: v, e, f or several of them. D blocks "
        "update vertices only.",
    )
    d_model: Size = Field(default=256, description="The number of features per element; n_heads must divide it.")
    d_hidden: Size = Field(default=512, description="The width of the hidden layer in feed-forward networks.")
    n_heads: Size = Field(default=4, description="The number of attention heads.")
    dropout: float = Field(
        default=0.1, ge=0.0, lt=1.0, description="The share of entries set to zero at random during training."
    )
    residual_dropout: float = Field(
        default=0.0,
        ge=0.0,
        lt=1.0,
        description="The share of entries set to zero at random, during training, in what a block adds to its input; "
        "0.1 in the authors' code.",
    )
    feed_forward_norm: bool = Field(
        default=False,
        description="Normalize the hidden layer of the blocks' feed-forward networks by the statistics of the batch, "
        "as the authors' code does.",
    )
    center_head: bool = Field(
        default=True,
        description="Center the features of whole meshes by the statistics of the batch before the output layer; false "
        "in the authors' code.",
    )
    embedding: Literal["neighbor", "plain"] = Field(
        default="neighbor", description="Embed each element together with its neighbors, or alone (plain)."
    )
    in_features: dict[ElementKind, Size] = Field(
        default_factory=lambda: dict(feature_widths(PAPER_GROUPS).items()),
        description="The number of input columns per kind of element.",
    )
    stars: Stars = Field(
        default="learned",
        description="Learn the Hodge stars, or use fixed ones of discrete exterior calculus for comparison.",
    )
    star_bound: float = Field(
        default=3.0,
        ge=0.0,
        le=10.0,
        description="D blocks learn their stars, which are the cotangent ones times factors from exp(-star_bound) to "
        "exp(star_bound); 0 keeps the cotangent ones.",
    )
    signed_stars: bool = Field(
        default=False,
        description="Multiply the entries of learned stars between edges (faces) by the cosine of the angle between "
        "their directions (normals), so that the answer does not depend on which way edges point; false is the paper's "
        "formula.",
    )
    edge_reversal: tuple[int, ...] = Field(
        default=(), description="The order of the columns of an edge once it is reversed; set with signed_stars."
    )
    checkpoint_activations: bool = Field(
        default=False,
        description="Use less memory in training by computing each block twice; set it if training runs out of memory.",
    )
    backend: Backend = Field(
        default="auto", description="What computes star attention; auto uses the fastest that runs on the device."
    )

    @model_validator(mode="before")
    @classmethod
    def _default_element(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("element") is None:
            return {**values, "element": "face" if values.get("task") == "segmentation" else "mesh"}
        return values

    @field_validator("blocks")
    @classmethod
    def _known_blocks(cls, blocks: str) -> str:
        if not blocks or set(blocks) - set("HTD"):
            raise ValueError("write the stack as one or more letters H, T and D, such as 'HHHHHHTT' or 'DDDD'")
        if len(blocks) > _MOST_BLOCKS:
            raise ValueError(f"{len(blocks):,} blocks are too many; use at most {_MOST_BLOCKS}")
        return blocks

    @field_validator("updates")
    @classmethod
    def _known_kinds(cls, updates: str) -> str:
        ordered = "".join(kind for kind in KINDS if kind in updates)
        if not updates or sorted(updates) != sorted(ordered):
            raise ValueError("name each updated kind once, from v, e and f, such as 'v' or 'vef'")
        return ordered

    @field_validator("in_features")
    @classmethod
    def _all_kinds(cls, widths: dict[ElementKind, int]) -> dict[ElementKind, int]:
        missing = [kind for kind in KINDS if kind not in widths]
        if missing:
            raise ValueError(f"the number of input columns of kind {', '.join(missing)} is missing")
        return {kind: widths[kind] for kind in KINDS}

    @model_validator(mode="after")
    def _fits_together(self) -> ModelConfig:
        if self.d_model % self.n_heads:
            raise ValueError(f"d_model ({self.d_model}) must be divisible by n_heads ({self.n_heads})")
        if "D" in self.blocks and ("v" not in self.updates or self.d_model % N_TIMES):
            raise ValueError(
                f"D blocks diffuse vertex features over {N_TIMES} times: updates must include v, and d_model must be "
                f"divisible by {N_TIMES}, got '{self.updates}' and {self.d_model}"
            )
        if self.feed_forward_norm and self.checkpoint_activations:
            raise ValueError(
                "feed_forward_norm would count every batch twice with checkpoint_activations; set one of them to false"
            )
        if self.signed_stars and "e" in self.updates:
            raise ValueError("signed_stars needs blocks that do not update edges: set updates to v, f or vf")
        if self.edge_reversal and sorted(self.edge_reversal) != list(range(self.in_features["e"])):
            raise ValueError(f"edge_reversal must be an order of the {self.in_features['e']} columns of edges")
        if self.task == "classification" and self.element != "mesh":
            raise ValueError(
                f"classification labels whole meshes; to label each {self.element} use task 'segmentation'"
            )
        if self.task == "segmentation" and self.element == "mesh":
            raise ValueError("segmentation labels elements; to label whole meshes use task 'classification'")
        return self

    @property
    def description(self) -> str:
        """Which blocks there are, in one sentence that names no star that the model does not have."""
        signs = " with signs" if self.signed_stars else ""
        kinds = {
            "H": ("HodgeFormer", f", whose attention is a learned Hodge star{signs}"),
            "T": ("Transformer", " with linear attention"),
            "D": ("diffusion", " with learned diagonal Hodge stars"),
        }
        if self.stars != "learned":
            kinds["H"] = ("Hodge Laplacian", f" with fixed {self.stars} stars")
        if not self.diffusion_bound:
            kinds["D"] = ("diffusion", " with fixed cotangent stars")
        counts = {letter: self.blocks.count(letter) for letter in kinds}
        parts = [
            f"{n} {kinds[letter][0]} block{'s' if n > 1 else ''} ({letter}){kinds[letter][1]}"
            for letter, n in counts.items()
            if n
        ]
        return "; ".join(parts) + ("" if self.learns_stars else "; no learned star")

    @property
    def learns_stars(self) -> bool:
        return self.attends or ("D" in self.blocks and self.diffusion_bound > 0)

    @property
    def attends(self) -> bool:
        """Whether some star is attention between elements."""
        return "H" in self.blocks and self.stars == "learned"

    @property
    def diffusion_bound(self) -> float:
        """The bound of the learned stars in D blocks; zero where they are fixed."""
        return self.star_bound if self.stars == "learned" else 0.0

    @property
    def d_head(self) -> int:
        return self.d_model // self.n_heads

    @property
    def widths(self) -> PerElement[int]:
        return PerElement(**self.in_features)

    @property
    def updated(self) -> tuple[ElementKind, ...]:
        return tuple(kind for kind in KINDS if kind in self.updates)

    @property
    def embedded(self) -> tuple[ElementKind, ...]:
        """The kinds that some layer reads; the others need no embedding."""
        return tuple(kind for kind in KINDS if kind in self.updates or kind in self.patterned)

    @property
    def reads_order(self) -> bool:
        """Whether the answer depends on the directions of edges or on first corners, which follow the canonical order.

        So do the random connections of patterns, but these are as good in any order.
        """
        return "f" in self.embedded or ("e" in self.embedded and not self.signed_stars)

    @property
    def patterned(self) -> tuple[ElementKind, ...]:
        """The kinds whose patterns learned stars read."""
        stars = {STAR_KIND[star] for kind in self.updated for star in OPERATOR_STARS[kind]}
        return tuple(kind for kind in KINDS if kind in stars and self.attends)

    @property
    def target_kind(self) -> ElementKind | None:
        """The kind of element that one row of the output belongs to; None for whole meshes."""
        return KIND_OF.get(self.element)
