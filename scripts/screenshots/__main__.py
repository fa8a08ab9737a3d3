"""`python -m scripts.screenshots [SCENE …] [--to DIRECTORY]`: play the scenes, keep the pictures, check their sizes."""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from playwright.async_api import Locator, Page

from scripts.screenshots.scenes import SCENES, file_of
from scripts.screenshots.stage import stage

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
PICTURE_MAX_BYTES = 120_000
ALL_MAX_BYTES = 2_000_000


async def play(names: list[str], directory: Path) -> None:
    async def take(name: str, what: Page | Locator) -> None:
        path = file_of(directory, name)
        await what.screenshot(path=path, animations="disabled", caret="hide")
        sys.stdout.write(f"{path.name}: {path.stat().st_size / 1000:.0f} kB\n")

    with tempfile.TemporaryDirectory(prefix="studio-pictures-") as data:
        async with stage(Path(data)) as played:
            for name in names:
                await SCENES[name](played, take)


def too_large(directory: Path) -> list[str]:
    """What is wrong with the sizes of the pictures, in words."""
    sizes = {path.name: path.stat().st_size for path in directory.glob("*.png")}
    wrong = [f"{name} has {size} bytes" for name, size in sorted(sizes.items()) if size > PICTURE_MAX_BYTES]
    return wrong + ([f"all have {sum(sizes.values())} bytes"] if sum(sizes.values()) > ALL_MAX_BYTES else [])


def main() -> None:
    parser = argparse.ArgumentParser(prog="screenshots", description=__doc__)
    parser.add_argument("scenes", nargs="*", metavar="SCENE", help=f"{', '.join(SCENES)}; none: all")
    parser.add_argument("--to", type=Path, default=IMAGES, help="where the pictures go (default: docs/images)")
    arguments = parser.parse_args()
    if unknown := set(arguments.scenes) - set(SCENES):
        parser.error(f"there is no scene {', '.join(sorted(unknown))}")
    arguments.to.mkdir(parents=True, exist_ok=True)
    asyncio.run(play(arguments.scenes or list(SCENES), arguments.to))
    if wrong := too_large(arguments.to):
        sys.exit("Too large: " + "; ".join(wrong))


if __name__ == "__main__":
    main()
