"""A TCPStore of torch, driven by lines on standard input: `set KEY VALUE`, `get KEY`, `later MILLISECONDS KEY VALUE`."""

import sys
import threading

from torch.distributed import TCPStore

store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, use_libuv=sys.argv[1] == "libuv")
print(store.port, flush=True)
for line in sys.stdin:
    words = line.split()
    if words[0] == "set":
        store.set(words[1], words[2])
        print("done", flush=True)
    elif words[0] == "get":
        print(store.get(words[1]).decode(), flush=True)
    elif words[0] == "later":
        threading.Timer(int(words[1]) / 1000, store.set, words[2:4]).start()
        print("done", flush=True)
    elif words[0] == "big":
        store.set(words[1], "x" * int(words[2]))
        print("done", flush=True)
