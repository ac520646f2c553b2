"""One file per mesh file format. Readers turn bytes into a `Content`, writers turn a `Mesh` into bytes."""
