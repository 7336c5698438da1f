// What the SDK needs of libtorch and tch does not bind, as plain C: process groups, generator
// states, determinism, autocast, the count of what waits for a GPU.
//
// Every function that can fail takes `error`: on failure it points to a message that
// `shockwave_error_free` frees, and the function returns null or false. Tensors are `at::Tensor*`,
// as in tch's own bindings.
#pragma once

#include <cstdint>

extern "C" {

struct shockwave_group;

// Joins a group of `size` processes as `rank`. The store listens at host:port on the process with
// `serve`; `prefix` keeps groups on one store apart; `address` is the local address that the other
// processes reach this one at. With `nccl`, tensors on GPUs are summed and sent by NCCL; all others,
// and all without it, by gloo.
shockwave_group* shockwave_group_join(
    const char* host,
    uint16_t port,
    bool serve,
    const char* prefix,
    const char* address,
    int rank,
    int size,
    int64_t timeout_ms,
    bool nccl,
    char** error);
void shockwave_group_free(shockwave_group* group);

// In place. `maximum` takes the largest of each element instead of the sum.
bool shockwave_all_reduce(shockwave_group* group, void* tensor, bool maximum, char** error);
// In place: every process gets the tensor of `root`.
bool shockwave_broadcast(shockwave_group* group, void* tensor, int root, char** error);
bool shockwave_barrier(shockwave_group* group, char** error);

// The state of a device's generator as a byte tensor (new, owned by the caller); `cuda` is the
// device's number, or negative for the CPU.
void* shockwave_generator_state(int cuda, char** error);
bool shockwave_set_generator_state(int cuda, void* state, char** error);

// Only kernels that give the same bits each time; an operation that has none fails.
bool shockwave_set_deterministic(bool on, char** error);

// Turns autocast on for this thread, to bf16 or fp16; returns what `shockwave_autocast_end` needs to
// bring back the state before (never negative, unless there is an error).
int shockwave_autocast_begin(bool cuda, bool fp16, char** error);
bool shockwave_autocast_end(bool cuda, int before, char** error);

// Counts from now on how often this thread's calls make the host wait for a GPU, as libtorch notices
// them. The second ends that and returns the count: negative where libtorch has no CUDA.
void shockwave_count_syncs();
int64_t shockwave_counted_syncs();

void shockwave_error_free(char* error);

} // extern "C"
