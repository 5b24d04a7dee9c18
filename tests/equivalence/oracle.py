"""Trains a small CNN with PyTorch's DistributedDataParallel over Gloo and writes down what happened.

Usage: oracle.py DIR. Files, raw little-endian, all steps and ranks in order:
  x.f32 [steps, ranks, batch, 1, 8, 8]   y.i64 [steps, ranks, batch]
  initial.f32, final.f32   parameters in the order of registration, then float buffers
Every third step accumulates two micro-batches; `spare` is used by rank 0 in odd steps only, `idle` never.
"""
import faulthandler
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F

STEPS, RANKS, BATCH = 30, 2, 6
PATIENCE = 80  # seconds; a few are enough


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 4, 3)
        self.norm = torch.nn.BatchNorm2d(4)
        self.fc = torch.nn.Linear(144, 5)
        self.spare = torch.nn.Linear(144, 5)
        self.idle = torch.nn.Linear(3, 3)

    def forward(self, x, use_spare):
        h = torch.relu(self.norm(self.conv(x))).flatten(1)
        return self.fc(h) + self.spare(h) if use_spare else self.fc(h)


def write(path, tensor):
    with open(path, "wb") as out:
        out.write(tensor.detach().contiguous().numpy().tobytes())


def values(net):
    tensors = list(net.parameters()) + [b for b in net.buffers() if b.is_floating_point()]
    return torch.cat([t.detach().flatten() for t in tensors])


def train(rank, folder, x, y):
    faulthandler.dump_traceback_later(PATIENCE - 10)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank,
                            world_size=RANKS)
    torch.manual_seed(100 + rank)  # rank 0's weights must win
    net = Net()
    if rank == 0:
        write(f"{folder}/initial.f32", values(net))
    ddp = torch.nn.parallel.DistributedDataParallel(net, find_unused_parameters=True)
    sgd = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=0.001)
    for step in range(STEPS):
        sgd.zero_grad(set_to_none=True)
        use_spare = rank == 0 and step % 2 == 1
        if step % 3 == 2:
            half = BATCH // 2
            with ddp.no_sync():
                F.cross_entropy(ddp(x[step, rank, :half], use_spare), y[step, rank, :half]).backward()
            F.cross_entropy(ddp(x[step, rank, half:], use_spare), y[step, rank, half:]).backward()
        else:
            F.cross_entropy(ddp(x[step, rank], use_spare), y[step, rank]).backward()
        sgd.step()
    if rank == 0:
        write(f"{folder}/final.f32", values(net))
    dist.destroy_process_group()


def run(folder, x, y):
    """False: it hangs, as PyTorch did once on a busy machine."""
    if os.path.exists(f"{folder}/rendezvous"):
        os.remove(f"{folder}/rendezvous")
    ranks = mp.spawn(train, (folder, x, y), nprocs=RANKS, join=False)
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if ranks.join(timeout=1):
            return True
    for process in ranks.processes:
        process.kill()
        process.join()
    return False


def main():
    folder = os.path.abspath(sys.argv[1])
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(7)
    x = torch.randn(STEPS, RANKS, BATCH, 1, 8, 8)
    y = torch.randint(0, 5, (STEPS, RANKS, BATCH))
    write(f"{folder}/x.f32", x)
    write(f"{folder}/y.i64", y)
    if not any(run(folder, x, y) for _ in range(3)):
        sys.exit("PyTorch hangs")


if __name__ == "__main__":
    main()
