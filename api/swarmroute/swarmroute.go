// Package swarmroute declares the endpoints of swarm, nodes, services and tasks (document 2, 4.6, and those that its clients
// need beside them). The engine and moss-swarm serve the same table: the engine passes on what moss-swarm does.
package swarmroute

import (
	"net/http"
	"reflect"

	"moss/api/apiver"
	"moss/api/compat"
	"moss/api/route"
	"moss/api/types"
)

// Verbs are the functions of the endpoints. A nil one answers 501.
type Verbs struct {
	SwarmInit, SwarmJoin, SwarmLeave, SwarmInspect, SwarmUpdate, SwarmUnlock, SwarmUnlockKey route.Func
	NodeList, NodeInspect, NodeUpdate, NodeRemove                                            route.Func
	ServiceList, ServiceCreate, ServiceInspect, ServiceUpdate, ServiceRemove                 route.Func
	TaskList, TaskInspect                                                                    route.Func
	NetworkList, NetworkCreate, NetworkRemove                                                route.Func // of NetworkRoutes

	Secrets, Configs Absent
	Logs             route.Func // of services and tasks
}

// Absent are the functions for a kind of objects that no swarm of moss has: of the list, of one object, and of a new one.
type Absent struct{ List, Find, Create route.Func }

// All returns verbs that are all the same function.
func All(do route.Func) Verbs {
	var v Verbs
	v.Secrets, v.Configs = Absent{do, do, do}, Absent{do, do, do}
	for _, verb := range reflect.ValueOf(&v).Elem().Fields() {
		if verb.Type() == reflect.TypeFor[route.Func]() {
			verb.Set(reflect.ValueOf(do))
		}
	}
	return v
}

// Routes returns the endpoints.
func Routes(v *Verbs) []route.Route {
	routes := append(swarmRoutes(v), nodeRoutes(v)...)
	routes = append(routes, serviceRoutes(v)...)
	routes = append(routes, taskRoutes(v)...)
	for i := range routes {
		routes[i].Versions = apiver.Range{Since: apiver.New(1, 24)}
	}
	return append(routes, absentRoutes(v)...)
}

func swarmRoutes(v *Verbs) []route.Route {
	return []route.Route{
		{Method: http.MethodPost, Path: "/swarm/init", Do: v.SwarmInit, Shape: route.Shape{
			About: "makes a swarm with this node as its manager; the answer is the node's id", Params: []route.Param{mediaType()},
			In: reflect.TypeFor[types.SwarmInit](), Out: reflect.TypeFor[string](), Codes: []int{200, 400, 406},
		}},
		{Method: http.MethodPost, Path: "/swarm/join", Do: v.SwarmJoin, Shape: route.Shape{
			About: "joins a swarm", Params: []route.Param{mediaType()},
			In: reflect.TypeFor[types.SwarmJoin](), OutMedia: plainText, Codes: []int{200, 400, 406},
		}},
		{Method: http.MethodPost, Path: "/swarm/leave", Do: v.SwarmLeave, Shape: route.Shape{
			About:    "leaves the swarm",
			Params:   []route.Param{{Name: "force", Kind: route.Bool, About: "also as a manager, whatever the swarm loses with it"}},
			OutMedia: plainText, Codes: []int{200, 400, 406},
		}},
		{Method: http.MethodGet, Path: "/swarm", Do: v.SwarmInspect, Shape: route.Shape{
			About: "shows the swarm and its join tokens", Out: reflect.TypeFor[types.Swarm](), Codes: []int{200, 404, 406},
		}},
		{Method: http.MethodPost, Path: "/swarm/update", Do: v.SwarmUpdate, Shape: route.Shape{
			About: "changes the swarm, or its join tokens",
			Params: []route.Param{
				version("of the swarm that the change is made from"),
				{Name: "rotateWorkerToken", Kind: route.Bool, About: "makes a new token for workers; the old one is of no use from then on"},
				{Name: "rotateManagerToken", Kind: route.Bool, About: "makes a new token for managers"},
				{Name: "rotateManagerUnlockKey", Kind: route.Bool, About: "makes a new key for swarm/unlock; of 1.25"},
				mediaType(),
			},
			In: reflect.TypeFor[types.SwarmSpec](), OutMedia: plainText, Codes: []int{200, 400, 406},
		}},
		{Method: http.MethodPost, Path: "/swarm/unlock", Do: v.SwarmUnlock, Shape: route.Shape{
			About: "unlocks a manager that was started again; of 1.25", Params: []route.Param{mediaType()},
			In: reflect.TypeFor[types.SwarmUnlock](), OutMedia: plainText, Codes: []int{200, 400, 406, 409},
		}},
		{Method: http.MethodGet, Path: "/swarm/unlockkey", Do: v.SwarmUnlockKey, Shape: route.Shape{
			About: "shows the key for swarm/unlock; of 1.25", Out: reflect.TypeFor[types.SwarmUnlockKey](), Codes: []int{200, 406},
		}},
	}
}

func nodeRoutes(v *Verbs) []route.Route {
	return []route.Route{
		{Method: http.MethodGet, Path: "/nodes", Do: v.NodeList, Shape: route.Shape{
			About: "lists nodes", Params: []route.Param{filters("id", "label", "membership", "name", "node.label", "role")},
			Out: reflect.TypeFor[[]types.Node](), Codes: []int{200, 400, 406},
		}},
		{Method: http.MethodGet, Path: "/nodes/:id", Do: v.NodeInspect, Shape: route.Shape{
			About: "shows a node", Out: reflect.TypeFor[types.Node](), Codes: []int{200, 404, 406, 409},
		}},
		{Method: http.MethodPost, Path: "/nodes/:id/update", Do: v.NodeUpdate, Shape: route.Shape{
			About:  "changes a node's role, availability and labels",
			Params: []route.Param{version("of the node that the change is made from"), mediaType()},
			In:     reflect.TypeFor[types.NodeSpec](), OutMedia: plainText, Codes: []int{200, 400, 404, 406, 409},
		}},
		{Method: http.MethodDelete, Path: "/nodes/:id", Do: v.NodeRemove, Shape: route.Shape{
			About:    "removes a node from the swarm",
			Params:   []route.Param{{Name: "force", Kind: route.Bool, About: "also one that is up"}},
			OutMedia: plainText, Codes: []int{200, 400, 404, 406, 409},
		}},
	}
}

func serviceRoutes(v *Verbs) []route.Route {
	return []route.Route{
		{Method: http.MethodGet, Path: "/services", Do: v.ServiceList, Shape: route.Shape{
			About: "lists services", Params: []route.Param{filters("id", "label", "name")},
			Out: reflect.TypeFor[[]types.Service](), Codes: []int{200, 406, 400},
		}},
		{Method: http.MethodPost, Path: "/services/create", Do: v.ServiceCreate, Shape: route.Shape{
			About: "makes a service", Params: []route.Param{mediaType(), credentials()},
			In: reflect.TypeFor[types.ServiceSpec](), Out: reflect.TypeFor[types.ServiceCreated](),
			Codes: []int{201, 403, 406, 409, 400},
		}},
		{Method: http.MethodGet, Path: "/services/:id", Do: v.ServiceInspect, Shape: route.Shape{
			About: "shows a service", Out: reflect.TypeFor[types.Service](), Codes: []int{200, 404, 406, 409},
		}},
		{Method: http.MethodDelete, Path: "/services/:id", Do: v.ServiceRemove, Shape: route.Shape{
			About: "stops and removes a service", OutMedia: plainText, Codes: []int{200, 404, 406, 409},
		}},
		{Method: http.MethodPost, Path: "/services/:id/update", Do: v.ServiceUpdate, Shape: route.Shape{
			About: "changes a service, but for its name",
			Params: []route.Param{
				version("of the service that the change is made from"),
				mediaType(), credentials(),
			},
			Later: []route.Later{
				{Name: "rollback", Since: apiver.New(1, 25)},
				{Name: "registryAuthFrom", Since: apiver.New(1, 25), Fine: []string{"spec"}},
			},
			In: reflect.TypeFor[types.ServiceSpec](), Out: reflect.TypeFor[types.ServiceUpdated](),
			Codes: []int{200, 404, 406, 400, 403, 409},
		}},
	}
}

func taskRoutes(v *Verbs) []route.Route {
	return []route.Route{
		{Method: http.MethodGet, Path: "/tasks", Do: v.TaskList, Shape: route.Shape{
			About: "lists tasks", Params: []route.Param{filters("_up-to-date", "desired-state", "id", "label", "name", "node", "service")},
			Out: reflect.TypeFor[[]types.Task](), Codes: []int{200, 406, 400},
		}},
		{Method: http.MethodGet, Path: "/tasks/:id", Do: v.TaskInspect, Shape: route.Shape{
			About: "shows a task", Out: reflect.TypeFor[types.Task](), Codes: []int{200, 404, 406, 409},
		}},
	}
}

// NetworkRoutes returns the endpoints of the swarm's networks (document 2, 4.5). Moss-swarm alone has them: the engine serves the
// same paths for all networks, and asks moss-swarm for its share.
func NetworkRoutes(v *Verbs) []route.Route {
	networks := apiver.Range{Since: apiver.New(1, 21)}
	return []route.Route{
		{Method: http.MethodGet, Path: "/networks", Versions: networks, Do: v.NetworkList, Shape: route.Shape{
			About: "lists the networks of the swarm", Out: reflect.TypeFor[[]types.Network](), Codes: []int{200, 406},
		}},
		{Method: http.MethodPost, Path: "/networks/create", Versions: networks, Do: v.NetworkCreate, Shape: route.Shape{
			About: "makes a network of the swarm", Params: []route.Param{mediaType()},
			In: reflect.TypeFor[types.NetworkCreate](), Out: reflect.TypeFor[types.NetworkCreated](),
			Codes: []int{201, 400, 403, 404, 406, 409, 501},
		}},
		{Method: http.MethodDelete, Path: "/networks/:id", Versions: networks, Do: v.NetworkRemove, Shape: route.Shape{
			About: "removes a network of the swarm", OutMedia: plainText, Codes: []int{200, 403, 404, 406, 409},
		}},
	}
}

const plainText = "text/plain"

func mediaType() route.Param {
	return route.Param{Name: "Content-Type", Kind: route.Text, Header: true, About: "of the body: application/json"}
}

func credentials() route.Param {
	return route.Param{
		Name: compat.RegistryAuth, Kind: route.Text, Header: true,
		About: "base64 of a JSON object with the credentials of the image's registry; the swarm keeps them",
	}
}

func version(about string) route.Param {
	return route.Param{Name: "version", Kind: route.Int, Needed: true, About: about}
}

func filters(names ...string) route.Param {
	p := route.Param{Name: "filters", Kind: route.Filters, About: "a JSON map of lists: all of them must hold"}
	for _, name := range names {
		p.Values = append(p.Values, route.Value{Name: name})
	}
	return p
}
