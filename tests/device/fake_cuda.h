// What tests may ask of the fake driver besides the driver's own interface. Found by dlsym(), as the rest is.
#pragma once

extern "C" {
// The next `times` calls of the function of that name give this result and do nothing.
void fake_cuda_fail(const char* function, int result, int times);
// Calls of the function of that name take so long, from now on.
void fake_cuda_delay(const char* function, int us);
// What copies and kernels read and write of the device's memory takes them so long, from now on.
void fake_cuda_pace(int us_per_mb);
// The device has met an error that no call gets over, as a kernel with a bad address does.
void fake_cuda_break(int result);
// The process is killed when it calls the function of that name.
void fake_cuda_kill_at(const char* function);
// The next call of the function of that name calls this first.
void fake_cuda_before(const char* function, void (*call)(void* argument), void* argument);
// What the order of streams is drawn from.
void fake_cuda_seed(unsigned seed);
// The stream is being captured into a graph, or is no more.
void fake_cuda_capture(void* stream, int captures);
// Another thread captures a stream into a graph, which forbids all threads what might spoil it, unless they ask for it.
void fake_cuda_capture_elsewhere(int captures);
// The newest CUDA that the driver serves, as cuDriverGetVersion() has it.
void fake_cuda_set_version(int version);
// A device has no peer access to another, from now on.
void fake_cuda_part(int device, int peer);
// Kernels do not end, or do.
void fake_cuda_hold_kernels(int held);
// Copies between the host and what lies at or behind the address do not end, until it is 0.
void fake_cuda_hold_copies(unsigned long long from);
// Whether copies to a device from memory that is not registered keep the caller until their stream has come to them, as
// a driver may have it.
void fake_cuda_let_copies_wait(int wait);
// A context of the device that is not its primary one.
void* fake_cuda_other_context(int device);
// Where the next allocation begins.
void fake_cuda_place_next(void* address);
// Counts a call of the function of that name; what it has to give, where that is not success.
int fake_cuda_enter(const char* function);
// Calls of the function of that name so far.
int fake_cuda_calls(const char* function);
// Whether this thread is in the driver.
int fake_cuda_is_inside();
// Whether all streams have done what was put into them.
int fake_cuda_is_idle();
// Allocations of device memory, streams, events and registered pieces of memory that are there.
int fake_cuda_live();
}
