// Package table is what the nodes of a swarm know of each other: nodes with the keys of their tunnels, networks, the
// addresses of services and tasks, published ports. Managers build it from SwarmKit's store and send every node what
// concerns it. The package knows nothing of SwarmKit, of devices and of rules.
//
// # Contents
//
// Table is a value: View picks what one node needs, Diff says what has changed between two, and Apply does that change.
// Entries of maps are never changed in place; a Table that was handed over is not changed at all.
//
// # Transport
//
// Server (on managers) and Follow (on every node) speak over TLS that both sides authenticate, with the certificates of
// the swarm; their callers look at the roles in them. All messages are JSON behind four bytes of length, so that managers
// and nodes of different versions understand each other as far as they know the fields.
//
// The node begins with Hello: the version of the table that it has, and a sum of each entry. The manager answers with a
// Delta from just these entries, so any manager can go on where another one stopped, without a history. Versions are
// indexes of the raft log, the same on all managers: a manager that is behind says nothing until it has reached the
// version of the node, unless the node has heard nothing for two minutes. After each Delta the node answers Applied with
// its version, once the tunnel and the rules are as the table says.
//
// Nodes try managers in the same order, so that they follow the same one as long as it answers. Delta.Settled is the
// version that all nodes have applied: whoever must know that every node has taken a task out waits for it. A manager that a
// ready node does not follow does not know it, and says none. A node that is down is not waited for: it takes the table before
// it does anything else when it comes back.
//
// # For the program
//
//   - Package mesh builds the Table on managers from SwarmKit's stream of changes, at most every 50 ms, and hands it to
//     Server.Publish. Its version is the latest that stands in any object: what is removed leaves none. Sources of the
//     fields: Node from api.Node (Description.Engine.Labels for key, data address and routes; Status.State; Attachments
//     for Addrs), Network from api.Network (IPAM, Spec.Internal, Spec.Ingress), Service from api.Service (Endpoint, Spec),
//     Task from api.Task whose Status.State is between assigned and running. Task.Ready is Status.State == running and
//     DesiredState == running: SwarmKit reports running only when the executor's Start has returned, which waits for a
//     healthy container.
//   - The table's port is the TCP port after the one at which the manager listens.
//   - On a node, Follow hands each new Table to Options.Apply, which calls tunnel.Set and tells the engine. The last Table is
//     kept on disk: a node without managers goes on with it.
//   - An executor that stops a task waits until Settled has reached the version in which the task is not ready, at most
//     one second.
package table
