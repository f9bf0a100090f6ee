// Package rootless takes mossd from an ordinary user's process into namespaces of that user's own, in which the engine
// is uid 0 without any privilege on the host.
//
// RootlessKit does the work as a library: the outer process is its parent, a child holds the namespaces, and the inner
// engine runs below a small supervisor. All of them are the same binary; Dispatch tells the roles apart by argv[0] and
// by the environment, before any flag is parsed. This package also owns what must be known before the namespaces exist:
// the folders of this boot and of the data, the locks on them, sub-ids or the lack of them, and the cgroups that the
// user has been given. It knows nothing of containers.
package rootless
