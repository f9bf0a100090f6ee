package handler

import (
	"reflect"

	"moss/api/route"
	"moss/api/types"
)

// systemRoutes are about the engine itself.
func (h *Handler) systemRoutes() []route.Route {
	return []route.Route{
		{Method: post, Path: "/auth", Do: h.registryLogin, Shape: route.Shape{
			About: "asks a registry whether it takes the credentials", Params: params(mediaTypeParam()),
			In: reflect.TypeFor[types.AuthConfig](), Out: reflect.TypeFor[types.Login](),
			Codes: codes(200, 204, 400, 401, 403, 404, 501, 503),
		}},
		{Method: get, Path: "/info", Do: h.systemInfo, Shape: route.Shape{
			About: "tells about the engine and its host", Out: reflect.TypeFor[types.Info](), Codes: codes(200),
		}},
		{Method: get, Path: "/system/df", Do: h.systemUsage, Shape: route.Shape{
			About: "tells what takes how much room; of 1.25", Out: reflect.TypeFor[types.DiskUsage](), Codes: codes(200),
		}},
		{Method: get, Path: "/version", Do: h.systemVersion, Shape: route.Shape{
			About: "tells the versions of the engine", Out: reflect.TypeFor[types.Version](), Codes: codes(200),
		}},
		{Method: get, Path: "/_ping", Do: systemPing, Shape: route.Shape{
			About: "answers OK", OutMedia: plainText, Codes: codes(200),
		}},
		{Method: head, Path: "/_ping", Do: systemPing, Shape: route.Shape{About: "answers without a body", Codes: codes(200)}},
		{Method: get, Path: "/events", Do: h.systemEvents, Shape: route.Shape{
			About: "tells what happens, as it happens",
			Params: params(
				timeParam("since", "begins with what happened from then on"),
				timeParam("until", "ends then"),
				filtersParam("a JSON map of lists: all of them must hold",
					filterKeys("container", "event", "image", "label", "type", "volume", "network"), filterKeysSince(24, "daemon")),
			),
			Out: reflect.TypeFor[types.Event](), Stream: true, Codes: codes(200, 400),
		}},
		{Method: get, Path: "/openapi.yaml", Do: openAPI, Shape: route.Shape{
			About: "describes all this to programs, as OpenAPI has it, at 1.24; of moss alone", OutMedia: "application/yaml",
			Codes: codes(200),
		}},
	}
}

// swarmRoutes are about machines that work together. moss is none of several: what needs a swarm says so, as the documents
// want it (document 2, 4.6), and what makes one is not there.
func swarmRoutes() []route.Route {
	routes := []route.Route{
		{Method: post, Path: "/swarm/init", Shape: route.Shape{About: "makes a swarm", Codes: codes(501)}},
		{Method: post, Path: "/swarm/join", Shape: route.Shape{About: "joins a swarm", Codes: codes(501)}},
		{Method: get, Path: "/services", Do: notInSwarm, Shape: swarmShape("lists services")},
		{Method: post, Path: "/services/create", Do: notInSwarm, Shape: swarmShape("makes a service")},
		{Method: get, Path: "/services/:id", Do: notInSwarm, Shape: swarmShape("shows a service")},
		{Method: del, Path: "/services/:id", Do: notInSwarm, Shape: swarmShape("removes a service")},
		{Method: post, Path: "/services/:id/update", Do: notInSwarm, Shape: swarmShape("changes a service")},
		{Method: get, Path: "/tasks", Do: notInSwarm, Shape: swarmShape("lists tasks")},
		{Method: get, Path: "/tasks/:id", Do: notInSwarm, Shape: swarmShape("shows a task")},
		{Method: get, Path: "/swarm", Do: notInSwarm, Shape: swarmShape("shows the swarm")},
		{Method: post, Path: "/swarm/leave", Do: notInSwarm, Shape: swarmShape("leaves the swarm")},
		{Method: post, Path: "/swarm/update", Do: notInSwarm, Shape: swarmShape("changes the swarm")},
		{Method: get, Path: "/nodes", Do: notInSwarm, Shape: swarmShape("lists nodes")},
		{Method: get, Path: "/nodes/:id", Do: notInSwarm, Shape: swarmShape("shows a node")},
		{Method: del, Path: "/nodes/:id", Do: notInSwarm, Shape: swarmShape("removes a node")},
		{Method: post, Path: "/nodes/:id/update", Do: notInSwarm, Shape: swarmShape("changes a node")},
	}
	for i := range routes {
		routes[i].Versions = versionsSince(24)
	}
	return routes
}

// swarmShape is the shape of what only a node of a swarm can do.
func swarmShape(about string) route.Shape { return route.Shape{About: about, Codes: codes(406)} }
