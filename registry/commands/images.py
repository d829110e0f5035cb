"""`registry images …`."""

from datasets import sending_images
from optimize_site.kernel.commands import NounCommand, arg, verb

PATHS = arg("paths", nargs="+", metavar="PATH", help="images, and folders that hold some")


class ImageVerbs(NounCommand):
    """What can be done with images."""

    @verb("images push", PATHS, gives=("images", "sent", "held"))
    def push_images(self, paths: list[str]) -> None:
        """Send images that the box does not have yet; a push that stopped goes on where it was."""
        images = sending_images.images_at(paths)
        sent = sending_images.push(self, images)
        held = len({image.sha256 for image in images}) - len(sent)
        self.show({"images": [{"path": image.path, "sha256": image.sha256} for image in images], "sent": len(sent),
                   "held": held}, text=lambda _: print(f"{len(sent)} images sent, {held} were here already."))
