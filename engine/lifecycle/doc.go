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
// Locks, outer to inner: a container's token, its views lock, its net lock, its files lock, its mu (memory only). Its layer lock is
// held for mounting and unmounting its layer alone. The index's mu is held for memory work only and never together with a
// container's.
//
// The files lock is held while a file of the container's folder is written (its record, its files of /etc) and while an event of
// its life is applied: what events lead to is told, saved and heard in one order. The net lock is held while the networks of a
// running container change: the watcher waits for that, and gives them back under it. A start below a CgroupParent holds the
// cgroups lock for reading; it is taken whole only to remove empty parents.
//
// Readers get the published record, an immutable snapshot. What becomes of a container is decided by package life; applyEvent
// carries it out. The order of an end - what is released, told, saved and heard - stands in testdata/exit.txt: Exited means
// cleaned up.
package lifecycle
