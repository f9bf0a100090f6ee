package handler

import (
	"net/http"
	"slices"

	"moss/api/apiver"
	"moss/api/compat"
	"moss/api/route"
)

// Routes returns every endpoint of the documents, and a few of later ones that are worth having at every version. Those
// without a handler are not there yet, and say so.
func (h *Handler) Routes() []route.Route {
	return slices.Concat(
		h.containerRoutes(), h.containerChangeRoutes(), h.containerVerbRoutes(), h.containerStreamRoutes(), h.archiveRoutes(),
		h.execRoutes(), h.imageRoutes(), h.imageTransferRoutes(), h.buildRoutes(), h.volumeRoutes(), h.networkRoutes(),
		h.systemRoutes(),
		h.swarmRoutes(), h.absentRoutes(),
	)
}

// The methods, short enough for a table.
const (
	get  = http.MethodGet
	head = http.MethodHead
	post = http.MethodPost
	put  = http.MethodPut
	del  = http.MethodDelete
)

// The media types of bodies that are no JSON.
const (
	plainText = "text/plain"
	anyBytes  = "application/octet-stream"
)

func versionsSince(minor uint16) apiver.Range { return apiver.Range{Since: v(minor)} }

func textParam(name, about string) route.Param {
	return route.Param{Name: name, Kind: route.Text, About: about}
}

func boolParam(name, about string) route.Param {
	return route.Param{Name: name, Kind: route.Bool, About: about}
}

func intParam(name, about string) route.Param {
	return route.Param{Name: name, Kind: route.Int, About: about}
}

func timeParam(name, about string) route.Param {
	return route.Param{Name: name, Kind: route.Time, About: about}
}

func jsonParam(name, about string) route.Param {
	return route.Param{Name: name, Kind: route.JSON, About: about}
}

// repeatedParam is a parameter that may be given as often as wanted.
func repeatedParam(name, about string) route.Param {
	return route.Param{Name: name, Kind: route.Text, Many: true, About: about}
}

func headerParam(name, about string) route.Param {
	return route.Param{Name: name, Kind: route.Text, Header: true, About: about}
}

func requireParam(p route.Param) route.Param {
	p.Needed = true
	return p
}

// paramUntil is a parameter that versions after 1.minor do not have.
func paramUntil(minor uint16, p route.Param) route.Param {
	p.Versions = apiver.Range{Until: v(minor)}
	return p
}

// filtersParam is the parameter filters with the keys that it takes.
func filtersParam(about string, keys ...[]route.Value) route.Param {
	return route.Param{Name: "filters", Kind: route.Filters, Values: slices.Concat(keys...), About: about}
}

func filterKeys(names ...string) []route.Value { return filterKeysSince(0, names...) }

// filterKeysSince are keys that versions before 1.minor do not have; 0 is every version.
func filterKeysSince(minor uint16, names ...string) []route.Value {
	var versions apiver.Range
	if minor > 0 {
		versions = versionsSince(minor)
	}
	values := make([]route.Value, 0, len(names))
	for _, name := range names {
		values = append(values, route.Value{Name: name, Versions: versions})
	}
	return values
}

func params(list ...route.Param) []route.Param { return list }

func codes(list ...int) []int { return list }

// mediaTypeParam is the header of a JSON body.
func mediaTypeParam() route.Param {
	return headerParam("Content-Type", "of the body: application/json")
}

// upgradeParams are the headers of clients that take the connection over.
func upgradeParams(more ...route.Param) []route.Param {
	return append(more,
		headerParam("Connection", "Upgrade, if the client takes the connection over"),
		headerParam("Upgrade", "tcp, if the client takes the connection over: the answer is then 101"),
	)
}

// credentialsParam is the header of requests that reach a registry.
func credentialsParam() route.Param {
	return headerParam(compat.RegistryAuth, "base64 of a JSON object with the credentials of the registry")
}

func pruneFilters(names ...string) route.Param {
	return filtersParam("a JSON map of lists: which of them may go", filterKeys(names...))
}
