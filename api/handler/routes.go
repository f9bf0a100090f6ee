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
	return refuseLater(slices.Concat(
		h.containerRoutes(), h.containerChangeRoutes(), h.containerVerbRoutes(), h.containerStreamRoutes(), h.archiveRoutes(),
		h.execRoutes(), h.imageRoutes(), h.imageTransferRoutes(), h.buildRoutes(), h.volumeRoutes(), h.networkRoutes(), h.systemRoutes(),
		swarmRoutes(),
	))
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

func since(minor uint16) apiver.Range { return apiver.Range{Since: v(minor)} }

func text(name, about string) route.Param {
	return route.Param{Name: name, Kind: route.Text, About: about}
}

func flag(name, about string) route.Param {
	return route.Param{Name: name, Kind: route.Bool, About: about}
}

func number(name, about string) route.Param {
	return route.Param{Name: name, Kind: route.Int, About: about}
}

func moment(name, about string) route.Param {
	return route.Param{Name: name, Kind: route.Time, About: about}
}

func document(name, about string) route.Param {
	return route.Param{Name: name, Kind: route.JSON, About: about}
}

// several is a parameter that may be given as often as wanted.
func several(name, about string) route.Param {
	return route.Param{Name: name, Kind: route.Text, Many: true, About: about}
}

func header(name, about string) route.Param {
	return route.Param{Name: name, Kind: route.Text, Header: true, About: about}
}

func needed(p route.Param) route.Param {
	p.Needed = true
	return p
}

// filters is the parameter of that name with the keys that it takes.
func filters(about string, keys ...[]route.Value) route.Param {
	return route.Param{Name: "filters", Kind: route.Filters, Values: slices.Concat(keys...), About: about}
}

func keys(names ...string) []route.Value { return keysSince(0, names...) }

// keysSince are keys that versions before 1.minor do not have; 0 is every version.
func keysSince(minor uint16, names ...string) []route.Value {
	var versions apiver.Range
	if minor > 0 {
		versions = since(minor)
	}
	values := make([]route.Value, 0, len(names))
	for _, name := range names {
		values = append(values, route.Value{Name: name, Versions: versions})
	}
	return values
}

func params(list ...route.Param) []route.Param { return list }

func codes(list ...int) []int { return list }

// mediaType is the header of a JSON body.
func mediaType() route.Param {
	return header("Content-Type", "of the body: application/json")
}

// upgrade are the headers of clients that take the connection over.
func upgrade(more ...route.Param) []route.Param {
	return append(more,
		header("Connection", "Upgrade, if the client takes the connection over"),
		header("Upgrade", "tcp, if the client takes the connection over: the answer is then 101"),
	)
}

// credentials is the header of requests that reach a registry.
func credentials() route.Param {
	return header(compat.RegistryAuth, "base64 of a JSON object with the credentials of the registry")
}

func pruneFilters(names ...string) route.Param {
	return filters("a JSON map of lists: which of them may go", keys(names...))
}
