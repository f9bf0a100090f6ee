// Package lifecycle owns the containers: it makes them, starts and ends their processes, watches them, and knows them
// all. It speaks to storage, images, the network and whatever runs processes through small interfaces, and never learns
// that there are sockets, shims or API versions.
//
// # Who waits for whom
//
// Verbs that change a container (start, stop, restart, remove, rename, pause, unpause, update, commit, and connecting it to
// networks, and surrendering or keeping the container of a build) hold its operation token, which honours the caller's context. kill, wait, attach, logs, inspect, list and resize never take it, so they
// answer while a verb is at work. The exit watcher never takes it either. Nobody ever holds two tokens.
//
// Locks, outer to inner: a container's token, its save lock (which is held for the write of its record), its mu (memory
// only). Its layer lock is held for mounting and unmounting its layer alone; its views lock is outside of that and inside of
// the token. The index's mu is held for memory work only and never together with a container's.
//
// A start below a CgroupParent holds the cgroups lock for reading; it is taken whole only to remove empty parents. A container's
// hosts lock is held while its hosts file is rewritten: its own start does that, and those of containers it is linked with.
// Its net lock is held while its networks change after the start: the watcher waits for that, and gives them back under it.
// The net lock is outside of the save lock, the hosts lock and mu.
//
// Readers get the published record, an immutable snapshot. On an exit the watcher releases network and mount, then changes
// the state, publishes die, wakes the waiters, views of attached clients among them, and saves: Exited means cleaned up.
package lifecycle
