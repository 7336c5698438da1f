# One of two workers with PyTorch's own gloo: the same sum as in mod.rs.
import statistics
import sys
import time

import torch
import torch.distributed as dist

torch.set_num_threads(1)
dist.init_process_group("gloo")
buffer = torch.ones(int(sys.argv[1]))
times = []
for turn in range(int(sys.argv[2]) + 1):
    dist.barrier()
    start = time.perf_counter()
    dist.all_reduce(buffer)
    if turn > 0:
        times.append((time.perf_counter() - start) * 1e3)
    buffer.fill_(1)
if dist.get_rank() == 0:
    print(statistics.median(times))
dist.destroy_process_group()
