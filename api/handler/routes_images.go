package handler

import (
	"reflect"
	"strconv"

	"moss/api/compat"
	"moss/api/route"
	"moss/api/types"
)

// imageRoutes show images and change them.
func (h *Handler) imageRoutes() []route.Route {
	return []route.Route{
		{Method: get, Path: "/images/json", Do: h.imageList, Shape: route.Shape{
			About: "lists images, the newest first",
			Params: params(
				boolParam("all", "also parents without a name"),
				filtersParam("a JSON map of lists: all of them must hold", filterKeys("dangling", "label", "before", "since", "reference"),
					filterKeysSince(44, "until")),
				paramUntil(40, textParam("filter", "by name, a shell pattern too")),
				boolParam("digests", "adds RepoDigests; from 1.22 on they are always there"),
				boolParam("shared-size", "adds SharedSize").Since(v(42)),
			),
			Out: reflect.TypeFor[[]types.ImageSummary](), Codes: codes(200, 400, 404),
		}},
		{Method: get, Path: "/images/:name/json", Do: h.imageInspect, Shape: route.Shape{
			About:  "shows all about an image",
			Params: params(platformParam(49), boolParam("manifests", "adds nothing: an image has no index here").Since(v(48))),
			Out:    reflect.TypeFor[types.ImageInspect](), Codes: codes(200, 404, 400, 409),
		}},
		{Method: get, Path: "/images/:name/history", Do: h.imageHistory, Shape: route.Shape{
			About: "lists the steps that made an image, the newest first", Params: params(platformParam(48)),
			Out:   reflect.TypeFor[[]types.ImageHistory](),
			Codes: codes(200, 404, 400, 409),
		}},
		{Method: post, Path: "/images/:name/tag", Do: h.imageTag, Shape: route.Shape{
			About: "gives an image another name",
			Params: params(
				requireParam(textParam("repo", "the repository, with a tag or without")),
				textParam("tag", "latest without it"),
				boolParam("force", "moves the name from another image; later versions need no force").Until(v(21)),
			),
			Codes: codes(201, 400, 404, 409),
		}},
		{Method: del, Path: "/images/:name", Do: h.imageRemove, Shape: route.Shape{
			About: "takes a name away, and with the last one the image",
			Params: params(
				boolParam("force", "also what containers at rest use or several names hold"),
				boolParam("noprune", "keeps parents without a name"),
				route.Param{Name: "platforms", Kind: route.JSON, Many: true, About: "that the image must be for, as OCI has them; of 1.50"},
			),
			Out: reflect.TypeFor[[]types.ImageRemoved](), Codes: codes(200, 404, 409, 400),
		}},
		{Method: get, Path: "/images/search", Do: h.imageSearch, Shape: route.Shape{
			About: "searches the index of a registry",
			Params: params(
				requireParam(textParam("term", "what to look for; it may begin with a registry's host")),
				intParam("limit", "1 to 100, 25 without it").Since(v(24)),
				filtersParam("a JSON map of lists", filterKeys("stars", "is-automated", "is-official")).Since(v(24)),
				credentialsParam(),
			),
			Out: reflect.TypeFor[[]types.SearchResult](), Codes: codes(200, 400, 401, 403, 404, 501, 503),
		}},
		{Method: post, Path: "/images/prune", Do: h.imagesPrune, Shape: route.Shape{
			About:  "removes the images that no container uses; of 1.25",
			Params: params(pruneFilters("dangling", "label", "label!", "until")),
			Out:    reflect.TypeFor[types.ImagesPruned](), Codes: codes(200, 400, 409),
		}},
	}
}

// imageTransferRoutes bring images in and out.
func (h *Handler) imageTransferRoutes() []route.Route {
	messages := reflect.TypeFor[types.Progress]()
	return []route.Route{
		{Method: get, Path: "/distribution/:name/json", Do: h.distributionInspect, Shape: route.Shape{
			About: "asks a registry what a name stands for; of 1.30", Params: params(credentialsParam()),
			Out: reflect.TypeFor[types.DistributionInspect](), Codes: codes(200, 400, 401, 403, 404, 501, 503),
		}},
		{Method: post, Path: "/images/create", Do: h.imageCreate, Shape: route.Shape{
			About: "pulls an image, or imports an archive of files as one",
			Params: params(
				textParam("fromImage", "what to pull, with a tag or digest or without"),
				textParam("fromSrc", "what to import: - for the body, or a URL with http or https"),
				textParam("repo", "of what is imported"),
				textParam("tag", "a tag or a digest; on pull none means all tags"),
				textParam("message", "of what is imported"),
				repeatedParam("changes", "instructions on the configuration of what is imported"),
				textParam("platform", "os[/arch[/variant]] of what is pulled"),
				credentialsParam(),
			),
			InMedia: compat.Tar, Out: messages, Stream: true, Codes: codes(200, 404, 400, 401, 403, 409, 501, 503),
		}},
		{Method: post, Path: "/images/:name/push", Do: h.imagePush, Shape: route.Shape{
			About:  "pushes an image to the registry that its name holds",
			Params: params(textParam("tag", "one tag; without it that of the name, or all"), platformParam(46), credentialsParam()),
			In:     reflect.TypeFor[types.AuthConfig](), Out: messages, Stream: true,
			Codes: codes(200, 404, 400, 401, 403, 409, 501, 503),
		}},
		{Method: get, Path: "/images/:name/get", Do: h.imageSave, Shape: route.Shape{
			About: "gives an image as a tar archive", Params: params(platformParam(48)),
			OutMedia: compat.Tar, Codes: codes(200, 404, 400, 409),
		}},
		{Method: get, Path: "/images/get", Do: h.imagesSave, Shape: route.Shape{
			About:    "gives several images as one tar archive",
			Params:   params(requireParam(repeatedParam("names", "names or ids")), platformParam(48)),
			OutMedia: compat.Tar, Codes: codes(200, 404, 400, 409),
		}},
		{Method: post, Path: "/images/load", Do: h.imageLoad, Shape: route.Shape{
			About:   "takes the images of a tar archive in",
			Params:  params(boolParam("quiet", "leaves out the progress of layers").Since(v(23)), platformParam(48)),
			InMedia: compat.Tar, Out: messages, Stream: true, Codes: codes(200, 400, 409, 501), BadSince: v(25),
		}},
	}
}

// platformParam is the platform that an image must be for, an addition of 1.minor.
func platformParam(minor int) route.Param {
	return jsonParam("platform", "that the image must be for, as OCI has it; of 1."+strconv.Itoa(minor))
}

// buildRoutes make images from Dockerfiles.
func (h *Handler) buildRoutes() []route.Route {
	return []route.Route{
		{Method: post, Path: "/build", Do: h.imageBuild, Shape: route.Shape{
			About: "makes an image from a Dockerfile", Params: buildParams(),
			InMedia: compat.Tar, Out: reflect.TypeFor[types.Progress](), Stream: true,
			Codes: codes(200, 400, 401, 403, 404, 409, 501, 503),
		}},
		{Method: post, Path: "/build/prune", Do: h.buildPrune, Shape: route.Shape{
			About: "removes what nothing needs of the build cache; of 1.31",
			Params: params(
				boolParam("all", "also what the latest builds used"),
				intParam("keep-storage", "bytes that may stay"),
				intParam("reserved-space", "the same, as later versions call it; of 1.48"),
				intParam("max-used-space", "bytes of the cache that may stay; of 1.48"),
				intParam("min-free-space", "bytes of the disk that are to be free; of 1.48"),
				pruneFilters("until", "id", "parent", "type", "description", "inuse", "shared", "private",
					"unused-for", "label", "label!"),
			),
			Out: reflect.TypeFor[types.BuildsPruned](), Codes: codes(200, 400, 409),
		}},
		{Method: post, Path: "/session", Do: noBuildKit, Shape: route.Shape{
			About: "belongs to BuildKit, which is not there; of 1.31", Codes: codes(501),
		}},
		{Method: post, Path: "/grpc", Do: noBuildKit, Shape: route.Shape{
			About: "belongs to BuildKit, which is not there; of 1.39", Codes: codes(501),
		}},
		{Method: post, Path: "/build/cancel", Do: h.buildCancel, Shape: route.Shape{
			About:  "ends no build: a client ends its own by hanging up; of 1.39",
			Params: params(textParam("id", "of a build, which none has")), Codes: codes(404),
		}},
	}
}

// buildParams are of every version: clients send those of later ones without looking.
func buildParams() []route.Param {
	return params(
		textParam(compat.BuildFile, "path of the Dockerfile in the context"),
		textParam(compat.BuildFileClient, "what docker clients call enginefile"),
		repeatedParam("t", "name of the image"),
		textParam("remote", "URL of the context: a git repository, an archive or a Dockerfile"),
		boolParam("q", "the id alone"),
		boolParam("nocache", "every step is done anew"),
		boolParam("pull", "the registry of each base image is asked"),
		boolParam("rm", "containers of steps that succeeded are removed; on without it"),
		boolParam("forcerm", "those of failed steps too"),
		intParam("memory", "bytes, of RUN"),
		intParam("memswap", "bytes, memory and swap of RUN; -1: no limit of swap"),
		intParam("cpushares", "weight of RUN"),
		textParam("cpusetcpus", "CPUs of RUN"),
		textParam("cpusetmems", "memory nodes of RUN"),
		intParam("cpuperiod", "microseconds, of RUN"),
		intParam("cpuquota", "microseconds, of RUN"),
		intParam("shmsize", "bytes of /dev/shm, of RUN"),
		jsonParam("buildargs", "a map of arguments; null is one without a value"),
		jsonParam("labels", "a map; over those of the Dockerfile"),
		jsonParam("ulimits", "a list of objects with Name, Soft and Hard"),
		jsonParam("cachefrom", "a list of images whose steps count as done"),
		textParam("cgroupparent", "below the group of the engine"),
		textParam("isolation", "default"),
		textParam("networkmode", "default, bridge, none, a network or container:NAME"),
		repeatedParam("extrahosts", "NAME:IP"),
		repeatedParam("securityopt", "as in HostConfig"),
		textParam("target", "name or number of a stage"),
		textParam("platform", "of base images that are fetched"),
		boolParam("steps", "of moss alone: messages tell of each step under aux"),
		textParam("version", "1; 2, which is BuildKit, is 501"),
		boolParam("squash", "501"),
		textParam("session", "501"),
		textParam("buildid", "501"),
		jsonParam("outputs", "501, but for an empty list"),
		headerParam(compat.RegistryConfig, "base64 of a JSON map of registries to credentials, or of a configuration file"),
		headerParam(compat.BuildSecrets, "of moss alone: base64 of a JSON map of ids to contents in base64"),
	)
}
