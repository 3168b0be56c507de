"""`python -m navarch.cli`: the same as `navarch`."""

from navarch.cli.main import main

main()
