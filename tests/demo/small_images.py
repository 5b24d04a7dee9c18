"""small_images.py FOLDER [TRAIN TEST]: an image set in MNIST's four files, easy to learn: class c lights row c."""
import pathlib
import random
import struct
import sys


def write(folder, split, count, seed):
    draw = random.Random(seed)
    labels = bytes(draw.randrange(10) for _ in range(count))
    pixels = bytearray()
    for label in labels:
        image = bytearray(draw.randrange(60) for _ in range(12 * 12))
        image[12 * (label + 1):12 * (label + 2)] = bytes([230] * 12)
        pixels += image
    (folder / f"{split}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 0x803, count, 12, 12) + pixels)
    (folder / f"{split}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, count) + labels)


def main(folder, train="640", test="101"):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write(folder, "train", int(train), 1)
    write(folder, "t10k", int(test), 2)


if __name__ == "__main__":
    main(*sys.argv[1:])
