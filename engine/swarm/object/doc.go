// Package object turns the API's records of services, tasks, nodes and the swarm into SwarmKit's objects, and back. It checks
// what a client asks for, and it asks nobody: no function reads a file, a clock or a manager.
//
// The functions To… and Change… read what a client sent. Their errors are fault.Invalid and begin with the field, by the names
// of the JSON. The functions New… make what a client is shown. Results share maps and slices with the arguments.
package object
