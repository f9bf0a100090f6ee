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
			About: "tells what takes how much room; of 1.25", Params: params(usageTypes()),
			Out: reflect.TypeFor[types.DiskUsage](), Codes: codes(200, 400),
		}},
		{Method: get, Path: "/version", Do: h.systemVersion, Shape: route.Shape{
			About: "tells the versions of the engine", Out: reflect.TypeFor[types.Version](), Codes: codes(200),
		}},
		{Method: get, Path: "/_ping", Do: h.systemPing, Shape: route.Shape{
			About: "answers OK", OutMedia: plainText, Codes: codes(200),
		}},
		{Method: head, Path: "/_ping", Do: h.systemPing, Shape: route.Shape{About: "answers without a body", Codes: codes(200)}},
		{Method: get, Path: "/events", Do: h.systemEvents, Shape: route.Shape{
			About: "tells what happens, as it happens",
			Params: params(
				timeParam("since", "begins with what happened from then on"),
				timeParam("until", "ends then"),
				filtersParam("a JSON map of lists: all of them must hold",
					filterKeys("container", "event", "image", "label", "type", "volume", "network"), filterKeysSince(24, "daemon"),
					filterKeysSince(25, "plugin"), filterKeysSince(30, "scope"),
					filterKeysSince(33, "service", "node", "secret", "config")),
			),
			Out: reflect.TypeFor[types.Event](), Stream: true, Codes: codes(200, 400),
		}},
		{Method: get, Path: "/openapi.yaml", Do: openAPI, Shape: route.Shape{
			About: "describes all this to programs, as OpenAPI has it, at 1.24; of moss alone", OutMedia: "application/yaml",
			Codes: codes(200),
		}},
	}
}

// usageTypes is the parameter with the types of objects that are wanted.
func usageTypes() route.Param {
	return repeatedParam("type", "container, image, volume or build-cache: these alone, and null of the others").Since(v(42))
}
