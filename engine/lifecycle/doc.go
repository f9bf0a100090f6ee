// Package lifecycle owns the containers: it makes them, starts and ends their processes, watches them, and knows them
// all. It speaks to storage, images, the network and whatever runs processes through small interfaces, and never learns
// that there are sockets, shims or API versions.
//
// # Parts
//
// Manager has the verbs. Its parts have a subject each and do not know it (parts.go). lives applies events and calls back for
// what follows; launcher starts processes, follower watches them to their ends, stopper ends them, freezer pauses them;
// takeover makes those of an earlier engine this one's own, and leftovers ends the rest; maker and remover make and remove
// containers; layers, volumes, userNamespaces, etcFiles, links and namespaces hold what a container is given. Viewers,
// Inventory, Commits, Steps, Files and Networks are for callers that need no verb.
//
// # Who waits for whom
//
// Verbs that change a container (start, stop, restart, remove, rename, pause, unpause, update, commit, connecting it to
// networks, and surrendering or keeping the container of a build) hold its operation token, which honours the caller's context.
// kill, wait, attach, logs, inspect, list and resize never take it, so they answer while a verb is at work. The follower never
// takes it either. Nobody ever holds two tokens.
//
// A lock called mu is used by the methods of its own type alone, which work in memory and know no other lock: it has no place
// in any order (TestInnerLocks). The locks that are held while work is done are fields of ctr, and are taken in their order.
//
// The files lock is held while a file of the container's folder is written (its record, its files of /etc) and while an event
// of its life is applied: what events lead to is told, saved and heard in one order. The lock of its networks is held while
// those of a running container change: the follower waits for that, and gives them back under it. A start holds the starting lock
// of the Manager for reading, and below a CgroupParent the parents lock of cgroups: they are taken whole by callers that lock
// nothing meanwhile, to end all starts and to remove empty parents.
//
// Readers get the published record, an immutable snapshot. What becomes of a container is decided by package life; applyEvent
// carries it out. The order of an end - what is released, told, saved and heard - stands in testdata/exit.txt: Exited means
// cleaned up.
package lifecycle
