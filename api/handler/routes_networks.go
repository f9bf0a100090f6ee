package handler

import (
	"reflect"

	"moss/api/route"
	"moss/api/types"
)

// volumeRoutes are about volumes.
func (h *Handler) volumeRoutes() []route.Route {
	volumes := versionsSince(21)
	return []route.Route{
		{Method: get, Path: "/volumes", Versions: volumes, Do: h.volumeList, Shape: route.Shape{
			About: "lists volumes",
			Params: params(filtersParam("a JSON map of lists: all of them must hold",
				filterKeys("dangling"), filterKeysSince(24, "name", "driver", "label"))),
			Out: reflect.TypeFor[types.VolumeList](), Codes: codes(200, 400), BadSince: v(25),
		}},
		{Method: post, Path: "/volumes/create", Versions: volumes, Do: h.volumeCreate, Shape: route.Shape{
			About: "makes a volume", Params: params(mediaTypeParam()),
			In: reflect.TypeFor[types.VolumeCreate](), Out: reflect.TypeFor[types.Volume](), Codes: codes(201, 400, 404, 409),
			BadSince: v(25),
		}},
		{Method: get, Path: "/volumes/:name", Versions: volumes, Do: h.volumeInspect, Shape: route.Shape{
			About: "shows a volume", Out: reflect.TypeFor[types.Volume](), Codes: codes(200, 404),
		}},
		{Method: put, Path: "/volumes/:name", Versions: volumes, Do: clusterVolumeUpdate, Shape: route.Shape{
			About: "changes a volume of a swarm, of which there are none; of 1.42", Codes: codes(501),
		}},
		{Method: del, Path: "/volumes/:name", Versions: volumes, Do: h.volumeRemove, Shape: route.Shape{
			About:  "removes a volume",
			Params: params(boolParam("force", "of 1.25: one that is not there is no error")), Codes: codes(204, 404, 409),
		}},
		{Method: post, Path: "/volumes/prune", Do: h.volumesPrune, Shape: route.Shape{
			About: "removes the volumes that no container uses, from 1.42 on only those that nobody named; of 1.25",
			Params: params(filtersParam("a JSON map of lists: which of them may go",
				filterKeys("label", "label!"), filterKeysSince(42, "all"))),
			Out: reflect.TypeFor[types.VolumesPruned](), Codes: codes(200, 400, 409),
		}},
	}
}

// networkRoutes are about networks.
func (h *Handler) networkRoutes() []route.Route {
	networks := versionsSince(21)
	return []route.Route{
		{Method: get, Path: "/networks", Versions: networks, Do: h.networkList, Shape: route.Shape{
			About: "lists networks, by name",
			Params: params(filtersParam("a JSON map of lists: all of them must hold",
				filterKeys("name", "id"), filterKeysSince(22, "type"), filterKeysSince(24, "driver", "label", "scope"),
				filterKeysSince(40, "dangling"))),
			Out: reflect.TypeFor[[]types.Network](), Codes: codes(200, 400), BadSince: v(25),
		}},
		{Method: get, Path: "/networks/:id", Versions: networks, Do: h.networkInspect, Shape: route.Shape{
			About:  "shows a network and who is in it",
			Params: params(textParam("scope", "of 1.31: local or swarm, where only such networks count")),
			Out:    reflect.TypeFor[types.Network](), Codes: codes(200, 404, 400, 409), BadSince: v(25),
		}},
		{Method: post, Path: "/networks/create", Versions: networks, Do: h.networkCreate, Shape: route.Shape{
			About: "makes a network", Params: params(mediaTypeParam()),
			In: reflect.TypeFor[types.NetworkCreate](), Out: reflect.TypeFor[types.NetworkCreated](),
			Codes: codes(201, 403, 404, 400, 406, 409, 501), BadSince: v(25),
		}},
		{Method: post, Path: "/networks/:id/connect", Versions: networks, Do: h.networkConnect, Shape: route.Shape{
			About: "puts a container into a network, at once and for every later start", Params: params(mediaTypeParam()),
			In: reflect.TypeFor[types.NetworkConnect](), OutMedia: plainText, Codes: codes(200, 404, 400, 403, 409, 501), BadSince: v(25),
		}},
		{Method: post, Path: "/networks/:id/disconnect", Versions: networks, Do: h.networkDisconnect, Shape: route.Shape{
			About: "takes a container out of a network, at once and for every later start", Params: params(mediaTypeParam()),
			In: reflect.TypeFor[types.NetworkDisconnect](), OutMedia: plainText, Codes: codes(200, 404, 400, 403, 409), BadSince: v(25),
		}},
		{Method: del, Path: "/networks/:id", Versions: networks, Do: h.networkRemove, Shape: route.Shape{
			About: "removes a network", OutMedia: plainText, Codes: codes(200, 204, 403, 404, 400, 406, 409), BadSince: v(25),
		}},
		{Method: post, Path: "/networks/prune", Do: h.networksPrune, Shape: route.Shape{
			About: "removes the networks that no container is in; of 1.25", Params: params(pruneFilters("label", "label!", "until")),
			Out: reflect.TypeFor[types.NetworksPruned](), Codes: codes(200, 400),
		}},
	}
}
