package handler

import (
	"net/http"

	"moss/api/apiver"
	"moss/api/route"
)

// Routes returns every endpoint of the documents, and a few of later ones that are worth having at every version. Those
// without a handler are not there yet, and say so.
func (h *Handler) Routes() []route.Route {
	var routes []route.Route
	for _, part := range [][]route.Route{
		h.containerRoutes(), h.imageRoutes(), h.execRoutes(), h.volumeRoutes(), h.networkRoutes(), swarmRoutes(), h.systemRoutes(),
	} {
		routes = append(routes, part...)
	}
	return routes
}

func since(minor uint16) apiver.Range { return apiver.Range{Since: v(minor)} }

func (h *Handler) containerRoutes() []route.Route {
	const get, post, del = http.MethodGet, http.MethodPost, http.MethodDelete
	return []route.Route{
		{Method: get, Path: "/containers/json", Do: h.containerList},
		{Method: post, Path: "/containers/create", Do: h.containerCreate},
		{Method: post, Path: "/containers/prune", Do: h.containersPrune}, // of 1.25
		{Method: get, Path: "/containers/:id/json", Do: h.containerInspect},
		{Method: get, Path: "/containers/:id/top", Do: h.containerTop},
		{Method: get, Path: "/containers/:id/logs", Do: h.containerLogs},
		{Method: get, Path: "/containers/:id/changes", Do: h.containerChanges},
		{Method: get, Path: "/containers/:id/export", Do: h.containerExport},
		{Method: get, Path: "/containers/:id/stats", Do: h.containerStats},
		{Method: post, Path: "/containers/:id/resize", Do: h.containerResize},
		{Method: post, Path: "/containers/:id/start", Do: h.containerStart},
		{Method: post, Path: "/containers/:id/stop", Do: h.containerStop},
		{Method: post, Path: "/containers/:id/restart", Do: h.containerRestart},
		{Method: post, Path: "/containers/:id/kill", Do: h.containerKill},
		{Method: post, Path: "/containers/:id/update", Versions: since(22), Do: h.containerUpdate},
		{Method: post, Path: "/containers/:id/rename", Do: h.containerRename},
		{Method: post, Path: "/containers/:id/pause", Do: h.containerPause},
		{Method: post, Path: "/containers/:id/unpause", Do: h.containerUnpause},
		{Method: post, Path: "/containers/:id/attach", Do: h.containerAttach},
		{Method: get, Path: "/containers/:id/attach/ws", Do: h.containerAttachWS},
		{Method: post, Path: "/containers/:id/wait", Do: h.containerWait},
		{Method: del, Path: "/containers/:id", Do: h.containerRemove},
		{Method: post, Path: "/containers/:id/copy", Do: h.containerCopy},
		{Method: http.MethodHead, Path: "/containers/:id/archive", Versions: since(20), Do: h.archiveStat},
		{Method: get, Path: "/containers/:id/archive", Versions: since(20), Do: h.archiveGet},
		{Method: http.MethodPut, Path: "/containers/:id/archive", Versions: since(20), Do: h.archivePut},
	}
}

func (h *Handler) imageRoutes() []route.Route {
	const get, post, del = http.MethodGet, http.MethodPost, http.MethodDelete
	return []route.Route{
		{Method: get, Path: "/images/json", Do: h.imageList},
		{Method: post, Path: "/build", Do: h.imageBuild},
		{Method: post, Path: "/build/prune", Do: h.buildPrune}, // of 1.31
		{Method: post, Path: "/images/create", Do: h.imageCreate},
		{Method: get, Path: "/images/:name/json", Do: h.imageInspect},
		{Method: get, Path: "/images/:name/history", Do: h.imageHistory},
		{Method: post, Path: "/images/:name/push", Do: h.imagePush},
		{Method: post, Path: "/images/:name/tag", Do: h.imageTag},
		{Method: del, Path: "/images/:name", Do: h.imageRemove},
		{Method: get, Path: "/images/search", Do: h.imageSearch},
		{Method: get, Path: "/images/:name/get", Do: h.imageSave},
		{Method: get, Path: "/images/get", Do: h.imagesSave},
		{Method: post, Path: "/images/load", Do: h.imageLoad},
		{Method: post, Path: "/images/prune", Do: h.imagesPrune}, // of 1.25
		{Method: post, Path: "/commit", Do: h.commit},
	}
}

func (h *Handler) execRoutes() []route.Route {
	return []route.Route{
		{Method: http.MethodPost, Path: "/containers/:id/exec", Do: h.execCreate},
		{Method: http.MethodPost, Path: "/exec/:id/start", Do: h.execStart},
		{Method: http.MethodPost, Path: "/exec/:id/resize", Do: h.execResize},
		{Method: http.MethodGet, Path: "/exec/:id/json", Do: h.execInspect},
	}
}

func (h *Handler) volumeRoutes() []route.Route {
	return []route.Route{
		{Method: http.MethodGet, Path: "/volumes", Versions: since(21), Do: h.volumeList},
		{Method: http.MethodPost, Path: "/volumes/create", Versions: since(21), Do: h.volumeCreate},
		{Method: http.MethodPost, Path: "/volumes/prune", Do: h.volumesPrune}, // of 1.25
		{Method: http.MethodGet, Path: "/volumes/:name", Versions: since(21), Do: h.volumeInspect},
		{Method: http.MethodDelete, Path: "/volumes/:name", Versions: since(21), Do: h.volumeRemove},
	}
}

func (h *Handler) networkRoutes() []route.Route {
	return []route.Route{
		{Method: http.MethodGet, Path: "/networks", Versions: since(21), Do: h.networkList},
		{Method: http.MethodGet, Path: "/networks/:id", Versions: since(21), Do: h.networkInspect},
		{Method: http.MethodPost, Path: "/networks/create", Versions: since(21), Do: h.networkCreate},
		{Method: http.MethodPost, Path: "/networks/prune", Do: h.networksPrune}, // of 1.25
		{Method: http.MethodPost, Path: "/networks/:id/connect", Versions: since(21), Do: h.networkConnect},
		{Method: http.MethodPost, Path: "/networks/:id/disconnect", Versions: since(21), Do: h.networkDisconnect},
		{Method: http.MethodDelete, Path: "/networks/:id", Versions: since(21), Do: h.networkRemove},
	}
}

func swarmRoutes() []route.Route {
	const get, post, del = http.MethodGet, http.MethodPost, http.MethodDelete
	routes := []route.Route{
		{Method: get, Path: "/services"},
		{Method: post, Path: "/services/create"},
		{Method: get, Path: "/services/:id"},
		{Method: del, Path: "/services/:id"},
		{Method: post, Path: "/services/:id/update"},
		{Method: get, Path: "/tasks"},
		{Method: get, Path: "/tasks/:id"},
		{Method: get, Path: "/swarm"},
		{Method: post, Path: "/swarm/init"},
		{Method: post, Path: "/swarm/join"},
		{Method: post, Path: "/swarm/leave"},
		{Method: post, Path: "/swarm/update"},
		{Method: get, Path: "/nodes"},
		{Method: get, Path: "/nodes/:id"},
		{Method: del, Path: "/nodes/:id"},
		{Method: post, Path: "/nodes/:id/update"},
	}
	for i := range routes {
		routes[i].Versions = since(24)
	}
	return routes
}

func (h *Handler) systemRoutes() []route.Route {
	return []route.Route{
		{Method: http.MethodPost, Path: "/auth", Do: h.login},
		{Method: http.MethodGet, Path: "/info", Do: h.systemInfo},
		{Method: http.MethodGet, Path: "/system/df", Do: h.systemUsage}, // of 1.25
		{Method: http.MethodGet, Path: "/version", Do: h.systemVersion},
		{Method: http.MethodGet, Path: "/_ping", Do: ping},
		{Method: http.MethodHead, Path: "/_ping", Do: ping},
		{Method: http.MethodGet, Path: "/events", Do: h.systemEvents},
	}
}
