package handler

import (
	"moss/api/route"
	"moss/engine/fault"
)

// notInSwarm answers what only a node of a swarm can do (document 2, 4.6).
func notInSwarm(*route.Call) error {
	return fault.NotAcceptable("This node is not part of a swarm: swarms are not there, containers of one machine are")
}
