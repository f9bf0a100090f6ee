package control

import (
	"net/http"

	"moss/api/route"
	"moss/api/swarmroute"
	"moss/engine/fault"
)

// absentObjects answers for a kind of objects that swarms of moss do not have. The list is empty and no error: clients that
// remove a stack look for all kinds of objects. "Not supported" are words that docker's command line looks for.
func (s *server) absentObjects(noun string) swarmroute.Absent {
	return swarmroute.Absent{
		List: s.onManager(func(c *route.Call) error { return c.JSON(http.StatusOK, []byte("[]")) }),
		Find: s.onManager(func(c *route.Call) error {
			return fault.NotFound("%s %s not found: %ss are not supported by this engine", noun, c.Param("id"), noun)
		}),
		Create: s.onManager(func(*route.Call) error { return fault.Unsupported("%ss are not supported by this engine", noun) }),
	}
}

func (s *server) refuseLogs(c *route.Call) error {
	return s.onManager(func(*route.Call) error {
		return fault.Unsupported("logs of services and tasks are not supported by this engine: each node has those of its " +
			"containers")
	})(c)
}

// onManager is a function for a node that is a manager.
func (s *server) onManager(do route.Func) route.Func {
	return func(c *route.Call) error {
		if _, err := s.member.Control(); err != nil {
			return err
		}
		return do(c)
	}
}
