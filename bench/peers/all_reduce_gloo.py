"""PyTorch's Gloo backend in the same loop as all_reduce.h; run with RANK, WORLD_SIZE and MASTER_* set."""
import datetime
import json
import statistics
import sys
import time

import torch
import torch.distributed as dist


def main():
    size = int(sys.argv[1])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
    rank, ranks = dist.get_rank(), dist.get_world_size()
    data = torch.full((size // 4,), float(rank + 1))

    def seconds_of(operations):
        start = time.perf_counter()
        for _ in range(operations):
            dist.all_reduce(data)
        return time.perf_counter() - start

    seconds_of(5)
    data.fill_(rank + 1)
    operations = torch.tensor([max(2.0, min(0.05 / (seconds_of(3) / 3), 2000.0))])
    dist.broadcast(operations, 0)
    operations = int(operations.item())
    batches, wrong = [], 0
    for _ in range(9):
        data.zero_()
        batches.append(seconds_of(operations) / operations)
        data.fill_(rank + 1)
        dist.all_reduce(data)
        wrong += int((data != ranks * (ranks + 1) / 2).sum())
    if rank == 0:
        print(json.dumps({"bytes": size, "p50_us": statistics.median(batches) * 1e6, "wrong": wrong}))
    return 1 if wrong else 0


sys.exit(main())
