"""`python -m hodgeformer` is the command line."""

from hodgeformer.cli import main

if __name__ == "__main__":
    main()
