// Package executor runs a swarm's tasks as containers of this node's engine. It is SwarmKit's exec.Executor: SwarmKit decides
// what is to run here, this package makes, starts, watches and removes the containers through the engine's API and reports what
// became of them. It knows nothing of managers, stores and the swarm's own API.
//
// A task is an ordinary container without a restart policy: a task that ends is replaced by another one, as the swarm decides.
// The engine may be replaced while tasks run. Calls that do not reach it are made again, nothing is reported as failed for that,
// and what happened meanwhile is read from the containers' states.
//
// # Resources
//
// A node reports what its containers can get: the processors and the memory of the machine, or less where a cgroup above bounds
// them. SwarmKit's scheduler compares that with reservations alone, which are an account and no bound: a node without cgroup
// controllers reports the same, as otherwise no service with a reservation could run there. Limits play no part in scheduling. On
// a node that cannot hold them the task runs, as a plain container does, and the engine's warning is logged.
//
// # Folders of the host
//
// A manager's user runs containers as this node's user. So a task gets folders of the host only below those that the node's own
// setting names, see hostFolders, and makes no volume that leads to a folder elsewhere. A volume that this node's user has made
// is given to the tasks that name it, wherever it leads.
package executor
