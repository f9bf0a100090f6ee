package swarmroute

import (
	"net/http"

	"moss/api/apiver"
	"moss/api/compat"
	"moss/api/route"
)

// absentRoutes are endpoints of what swarms of moss do not have. Clients find words there, by statuses that they take for "not
// there", instead of a path that leads nowhere.
func absentRoutes(v *Verbs) []route.Route {
	routes := append(objectRoutes("secret", 25, v.Secrets), objectRoutes("config", 30, v.Configs)...)
	for _, noun := range []string{"service", "task"} {
		routes = append(routes, route.Route{
			Method: http.MethodGet, Path: "/" + noun + "s/:id/logs", Do: v.Logs, Versions: apiver.Range{Since: apiver.New(1, 29)},
			Shape: route.Shape{About: "shows no logs: each node has those of its own containers; of 1.29", Codes: []int{406, 501}},
		})
	}
	return routes
}

// objectRoutes are the endpoints of a kind of objects, of 1.minor.
func objectRoutes(noun string, minor uint16, do Absent) []route.Route {
	path, of := "/"+noun+"s", ", of which there are none; of "+apiver.New(1, minor).String()
	missing := []int{404, 406}
	routes := []route.Route{
		{Method: http.MethodGet, Path: path, Do: do.List, Shape: route.Shape{
			About: "lists " + noun + "s" + of, OutMedia: compat.JSON, Codes: []int{200, 406},
		}},
		{Method: http.MethodPost, Path: path + "/create", Do: do.Create, Shape: route.Shape{
			About: "makes no " + noun + of, Codes: []int{406, 501},
		}},
		{Method: http.MethodGet, Path: path + "/:id", Do: do.Find, Shape: route.Shape{
			About: "shows a " + noun + of, Codes: missing,
		}},
		{Method: http.MethodPost, Path: path + "/:id/update", Do: do.Find, Shape: route.Shape{
			About: "changes a " + noun + of, Codes: missing,
		}},
		{Method: http.MethodDelete, Path: path + "/:id", Do: do.Find, Shape: route.Shape{
			About: "removes a " + noun + of, Codes: missing,
		}},
	}
	for i := range routes {
		routes[i].Versions = apiver.Range{Since: apiver.New(1, minor)}
	}
	return routes
}
