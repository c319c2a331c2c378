import sys


def main() -> None:
    from kildsvc.cli.main import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
