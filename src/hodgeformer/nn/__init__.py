"""The paper's model: learned Hodge stars, Laplacians, blocks, encoder and heads."""
