package handler

import (
	"moss/api/route"
	"moss/engine/fault"
)

// absentRoutes are endpoints of what moss does not have. Clients find words there, by statuses that they take for "not there",
// instead of a path that leads nowhere: a plugin by its name is 404, since docker's command line looks for any object of a name
// among plugins too.
func (h *Handler) absentRoutes() []route.Route {
	return []route.Route{
		refusedRoute(get, "/plugins", "lists no plugins", noPlugins, 501),
		refusedRoute(get, "/plugins/privileges", "tells of no plugin", noPlugins, 501),
		refusedRoute(post, "/plugins/pull", "fetches no plugin", noPlugins, 501),
		refusedRoute(post, "/plugins/create", "makes no plugin", noPlugins, 501),
		refusedRoute(get, "/plugins/:name/json", "shows no plugin", noSuchPlugin, 404),
		refusedRoute(del, "/plugins/:name", "removes no plugin", noSuchPlugin, 404),
		refusedRoute(post, "/plugins/:name/enable", "switches no plugin on", noSuchPlugin, 404),
		refusedRoute(post, "/plugins/:name/disable", "switches no plugin off", noSuchPlugin, 404),
		refusedRoute(post, "/plugins/:name/push", "pushes no plugin", noSuchPlugin, 404),
		refusedRoute(post, "/plugins/:name/upgrade", "upgrades no plugin", noSuchPlugin, 404),
		refusedRoute(post, "/plugins/:name/set", "configures no plugin", noSuchPlugin, 404),
		refusedRoute(get, "/containers/:id/checkpoints", "lists no checkpoints", noCheckpoints, 501),
		refusedRoute(post, "/containers/:id/checkpoints", "makes no checkpoint", noCheckpoints, 501),
		refusedRoute(del, "/containers/:id/checkpoints/:checkpoint", "removes no checkpoint", noCheckpoints, 501),
	}
}

// refusedRoute is an endpoint of 1.25 that answers with a status in any case.
func refusedRoute(method, path, about string, do route.Func, status int) route.Route {
	return route.Route{
		Method: method, Path: path, Versions: versionsSince(25), Do: do,
		Shape: route.Shape{About: about + ", of which there are none; of 1.25", Codes: codes(status)},
	}
}

func noPlugins(*route.Call) error {
	return fault.Unsupported("plugins are not supported by this engine: the drivers that it has are built in")
}

func noSuchPlugin(c *route.Call) error {
	return fault.NotFound("plugin %q not found: plugins are not supported by this engine", c.Param("name"))
}

func noCheckpoints(*route.Call) error {
	return fault.Unsupported("checkpoints are not supported by this engine: an ordinary user cannot save the memory of processes")
}
