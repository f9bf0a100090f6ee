// Package compat holds, in one place, the form of what clients in use need where the documents are silent or use other
// words: names, headers, media types, texts that are compared, and the readings of loosely written parameters. Other parts
// of the API take them from here. It knows no endpoint; what an endpoint does differently is in its handler.
//
// This is the index of what clients need, where it is, and what proves it: NN-name is a file of tests/.
//
// Of every request and answer:
//
//	Server, Api-Version, Ostype           Head; TestHead, 50-api
//	HEAD of _ping, no cache, no version   handler.ping, ProbeHead; 50-api
//	a version too new, too old, none      TooNew, TooOld, NoVersion, route.splitVersion; TestVersionWords, 50-api, 58-edge
//	an error: JSON or text                Error, apierr; TestError, 50-api
//	the status of an error                apierr.Status by the kind of fault; 50-api, 53-endpoints
//	unknown path, wrong method            PageNotFound, route.API; TestRoutes, 50-api
//	filters as lists and as maps          Filters; TestFilters, 50-api
//	filters that the version has not      route.Call.Filters; 53-endpoints
//	booleans                              Yes; TestYes, 50-api
//	the media type of bodies              route.Call.JSONBody; TestCall, 54-bad-input
//	names with slashes, doubled slashes   route.fold; TestFold, FuzzPath
//	OPTIONS, other origins                CrossOrigin, server's guard; TestCrossOrigin, TestGuard, 58-edge
//	pairs of names                        PathStat, BuildFile, FieldPairs; TestFieldPairs, 50-api
//	image ids with sha256:, short ones    engine/image, storage; 45-image-api
//	names without the default registry    engine/image Ref.Familiar; 40-images
//	<none> in lists                       None, wire.NewImageSummary; TestGolden
//	progress: bars, aux, times            Bar, wire.NewProgress; TestBar, TestGolden
//	an error midway, with a code          StreamError; TestStreamError
//	101 and 200 of a takeover             Takeover, conn.Hijack; TestTakeover, 50-api
//	no output in one read with the head   conn.Stream.Write; TestHeadIsReadAlone
//	logs: chunks, or 101 if asked for     conn.NewOutput; 53-endpoints
//	frames or a raw terminal              conn.Output, handler.execStart; 50-api
//	credentials in headers                RegistryAuth, RegistryConfig, wire.DecodeBase64; TestAuthConfig, 43-registries
//	the year 1 for what never was         the zero time.Time; TestGolden, 51-fields
//
// Of single endpoints, in package handler unless it says otherwise:
//
//	containers/json: order, Ports[].IP, names by links, unknown filters    engine/lifecycle, wire.NewContainerSummary; 51-fields
//	create: strings or lists, settings of old, 404 for an image alone      types.ContainerCreate; 50-api, 60-docker
//	inspect: never null where clients look, Volumes, ExecDriver            wire.NewContainerInspect; TestGolden
//	start with a body: refused from 1.24 on, obeyed before                 containerStart; TestVerbs
//	stop, kill, resize, update, rename, wait of what never ran             containerStop and others; TestVerbs, 53-endpoints
//	logs without a stream, since with nanoseconds                          containerLogs; 54-bad-input
//	stats twice, of what does not run                                      containerStats; 14-stats
//	exec: resize, empty Cmd, codes that are null                           execCreate and others; 11-exec
//	copy, archive: stat, modes, times                                      types.PathStat; 13-archive
//	images: create, push, load, delete, search                             imageCreate and others; 45-image-api
//	build                                                                  imageBuild; 47-build-api
//	commit                                                                 commit; 23-commit
//	networks, volumes                                                      networkList and others; 46-network-api, 16-volumes
//	auth                                                                   login; 43-registries
//	events: the head at once, destroy, exitCode, since                     systemEvents; 55-events
//	version, info: what later clients look for                             wire.NewVersion, wire.NewInfo; 84-info
package compat
