package handler

import (
	"reflect"

	"moss/api/apiver"
	"moss/api/compat"
	"moss/api/route"
	"moss/api/types"
)

// containerRoutes make containers and show them.
func (h *Handler) containerRoutes() []route.Route {
	return []route.Route{
		{Method: get, Path: "/containers/json", Do: h.containerList, Shape: route.Shape{
			About: "lists containers, the newest first",
			Params: params(
				boolParam("all", "also those that do not run"),
				intParam("limit", "the last created ones, running or not"),
				textParam("since", "those created after that one"),
				textParam("before", "those created before that one"),
				boolParam("size", "adds SizeRw and SizeRootFs"),
				filtersParam("a JSON map of lists: all of them must hold",
					filterKeys("exited", "status", "label", "id", "name", "health"), filterKeysSince(22, "isolation"),
					filterKeysSince(24, "ancestor", "before", "since", "volume", "network"),
					filterKeysSince(25, "is-task"), filterKeysSince(28, "publish", "expose")),
			),
			Out: reflect.TypeFor[[]types.ContainerSummary](), Codes: codes(200, 400),
		}},
		{Method: post, Path: "/containers/create", Do: h.containerCreate, Shape: route.Shape{
			About: "makes a container",
			Params: params(
				textParam("name", "its name, a random one without"), textParam("platform", "that the image must be for; of 1.41"),
				mediaTypeParam(),
			),
			In: reflect.TypeFor[types.ContainerCreate](), Out: reflect.TypeFor[types.ContainerCreated](),
			Codes: codes(201, 400, 404, 406, 409, 403, 501),
		}},
		{Method: post, Path: "/containers/prune", Do: h.containersPrune, Shape: route.Shape{
			About:  "removes the containers that do not run; of 1.25",
			Params: params(pruneFilters("label", "label!", "until")),
			Out:    reflect.TypeFor[types.ContainersPruned](), Codes: codes(200, 400, 409),
		}},
		{Method: get, Path: "/containers/:id/json", Do: h.containerInspect, Shape: route.Shape{
			About:  "shows all about a container",
			Params: params(boolParam("size", "adds SizeRw and SizeRootFs").Since(v(21))),
			Out:    reflect.TypeFor[types.ContainerInspect](), Codes: codes(200, 404, 400),
		}},
		{Method: get, Path: "/containers/:id/top", Do: h.containerTop, Shape: route.Shape{
			About:  "lists the processes of a container",
			Params: params(textParam("ps_args", "the columns, as ps takes them; -ef without it")),
			Out:    reflect.TypeFor[types.Top](), Codes: codes(200, 404, 400, 409, 501),
		}},
		{Method: get, Path: "/containers/:id/stats", Do: h.containerStats, Shape: route.Shape{
			About: "tells what a container uses, once a second",
			Params: params(
				boolParam("stream", "0: one sample, after a second; on without it").Since(v(20)),
				boolParam("one-shot", "with stream=0: the sample at once, maybe without one before it; of 1.41"),
			),
			Out: reflect.TypeFor[types.Stats](), Stream: true, Codes: codes(200, 404, 400),
		}},
	}
}

// containerChangeRoutes change what containers were made with, and make images of it.
func (h *Handler) containerChangeRoutes() []route.Route {
	return []route.Route{
		{Method: post, Path: "/containers/:id/update", Versions: versionsSince(22), Do: h.containerUpdate, Shape: route.Shape{
			About:  "changes the limits of a container",
			Params: params(mediaTypeParam()),
			In:     reflect.TypeFor[types.ContainerUpdate](), Out: reflect.TypeFor[types.ContainerUpdated](),
			Codes: codes(200, 400, 404, 409),
		}},
		{Method: post, Path: "/containers/:id/rename", Do: h.containerRename, Shape: route.Shape{
			About:  "gives a container another name",
			Params: params(requireParam(textParam("name", "the new name"))),
			Codes:  codes(204, 404, 409, 400),
		}},
		{Method: post, Path: "/commit", Do: h.containerCommit, Shape: route.Shape{
			About: "makes an image of what a container has changed",
			Params: params(
				textParam("container", "the container"),
				textParam("repo", "the image's name"),
				textParam("tag", "its tag"),
				textParam("comment", "in the image"),
				textParam("author", "in the image"),
				boolParam("pause", "the container stands still meanwhile; on without it"),
				repeatedParam("changes", "instructions on the configuration, last"),
				mediaTypeParam(),
			),
			In: reflect.TypeFor[types.Config](), Out: reflect.TypeFor[types.ImageCommitted](),
			Codes: codes(201, 404, 400, 409),
		}},
	}
}

// containerVerbRoutes do something to a container and answer without a body, or with little.
func (h *Handler) containerVerbRoutes() []route.Route {
	stop := params(
		intParam("t", "seconds between the stop signal and SIGKILL; below 0 without end"),
		textParam("signal", "name or number, in place of the container's own stop signal; of 1.42"),
	)
	return []route.Route{
		{Method: post, Path: "/containers/:id/start", Do: h.containerStart, Shape: route.Shape{
			About: "runs a container",
			Params: params(
				textParam("detachKeys", "what ends the view of those who named no keys themselves").Since(v(22)),
				textParam("checkpoint", "501; of 1.25"), textParam("checkpoint-dir", "501; of 1.25"), mediaTypeParam(),
			),
			In: reflect.TypeFor[types.HostConfig](), InVersions: apiver.Range{Until: v(23)},
			Codes: codes(204, 304, 404, 400, 403, 409, 501), BadSince: v(25),
		}},
		{Method: post, Path: "/containers/:id/stop", Do: h.containerStop, Shape: route.Shape{
			About: "stops a container", Params: stop, Codes: codes(204, 304, 404, 400, 409),
		}},
		{Method: post, Path: "/containers/:id/restart", Do: h.containerRestart, Shape: route.Shape{
			About: "stops a container if it runs, and starts it", Params: stop,
			Codes: codes(204, 404, 400, 403, 409, 501),
		}},
		{Method: post, Path: "/containers/:id/kill", Do: h.containerKill, Shape: route.Shape{
			About:  "sends a signal to a container",
			Params: params(textParam("signal", "name or number; SIGKILL without it")),
			Codes:  codes(204, 404, 400, 409),
		}},
		{Method: post, Path: "/containers/:id/pause", Do: h.containerPause, Shape: route.Shape{
			About: "halts the processes of a container", Codes: codes(204, 404, 400, 409),
		}},
		{Method: post, Path: "/containers/:id/unpause", Do: h.containerUnpause, Shape: route.Shape{
			About: "lets them go on", Codes: codes(204, 404, 400, 409),
		}},
		{Method: post, Path: "/containers/:id/resize", Do: h.containerResize, Shape: route.Shape{
			About: "sets the size of a container's terminal", Params: terminalSizeParams(), OutMedia: plainText,
			Codes: codes(200, 404, 400), BadSince: v(25),
		}},
		{Method: post, Path: "/containers/:id/wait", Do: h.containerWait, Shape: route.Shape{
			About: "answers when a container has ended; the head comes at once",
			Params: params(textParam("condition",
				"not-running; next-exit, the next end also of a container that does not run; or removed, its removal")),
			Out: reflect.TypeFor[types.ContainerWaited](), Codes: codes(200, 404, 400),
		}},
		{Method: del, Path: "/containers/:id", Do: h.containerRemove, Shape: route.Shape{
			About: "removes a container",
			Params: params(
				boolParam("v", "also its anonymous volumes"),
				boolParam("force", "also one that runs"),
				boolParam("link", "the link of that name, and nothing else"),
			),
			Codes: codes(204, 400, 404, 409),
		}},
	}
}

// terminalSizeParams are the two sides of a terminal.
func terminalSizeParams() []route.Param {
	return params(requireParam(intParam("h", "rows")), requireParam(intParam("w", "columns")))
}

// containerStreamRoutes carry what a container reads and writes.
func (h *Handler) containerStreamRoutes() []route.Route {
	view := func() []route.Param {
		return params(
			textParam("detachKeys", "what ends the view; ctrl-p,ctrl-q without it").Since(v(22)),
			boolParam("logs", "what was written before"),
			boolParam("stream", "what comes"),
			boolParam("stdin", "the client's input, if stream is on"),
			boolParam("stdout", "that stream"),
			boolParam("stderr", "that stream"),
		)
	}
	return []route.Route{
		{Method: get, Path: "/containers/:id/logs", Do: h.containerLogs, Shape: route.Shape{
			About: "shows what a container has written",
			Params: upgradeParams(
				boolParam("details", "attributes of the log options before each line").Since(v(24)),
				boolParam("follow", "what comes until the end"),
				boolParam("stdout", "that stream; one of the two is needed"),
				boolParam("stderr", "that stream; one of the two is needed"),
				timeParam("since", "leaves out what is older").Since(v(20)),
				timeParam("until", "leaves out what is younger, and ends follow; of 1.35"),
				boolParam("timestamps", "before each line, with nanoseconds"),
				textParam("tail", "all, or the number of the last lines"),
			),
			OutMedia: compat.RawStream, Codes: codes(101, 200, 404, 400, 501),
		}},
		{Method: post, Path: "/containers/:id/attach", Do: h.containerAttach, Shape: route.Shape{
			About: "joins the streams of a container, before its start too",
			Params: upgradeParams(append(view(),
				headerParam("Content-Type", "application/json: the body is not input, and dropped"))...),
			OutMedia: compat.RawStream, Codes: codes(101, 200, 400, 404, 409, 501), Refusal: compat.RawStream,
		}},
		{Method: get, Path: "/containers/:id/attach/ws", Do: h.containerAttachWS, Shape: route.Shape{
			About:  "joins the streams of a container over a WebSocket",
			Params: append(view(), webSocket()...),
			Codes:  codes(101, 400, 404, 403, 409, 501),
		}},
	}
}

// webSocket are the headers of the handshake.
func webSocket() []route.Param {
	return params(
		requireParam(headerParam("Connection", "Upgrade")),
		requireParam(headerParam("Upgrade", "websocket")),
		requireParam(headerParam("Sec-WebSocket-Version", "13")),
		requireParam(headerParam("Sec-WebSocket-Key", "base64 of 16 bytes")),
		headerParam("Sec-WebSocket-Protocol", "binary, if no message shall be text"),
	)
}

// archiveRoutes copy files into and out of containers.
func (h *Handler) archiveRoutes() []route.Route {
	path := requireParam(textParam("path", "from the container's root, links followed inside it"))
	return []route.Route{
		{Method: get, Path: "/containers/:id/changes", Do: h.containerChanges, Shape: route.Shape{
			About: "lists the files that differ from the image's", Out: reflect.TypeFor[[]types.ContainerChange](),
			Codes: codes(200, 404, 400),
		}},
		{Method: get, Path: "/containers/:id/export", Do: h.containerExport, Shape: route.Shape{
			About: "gives all files of a container as a tar archive", OutMedia: anyBytes, Codes: codes(200, 404, 400, 409, 501),
		}},
		{Method: post, Path: "/containers/:id/copy", Do: h.containerCopy, Shape: route.Shape{
			About: "gives a file or a folder as a tar archive; later clients use archive", Params: params(mediaTypeParam()),
			In: reflect.TypeFor[types.CopySource](), OutMedia: compat.Tar, Codes: codes(200, 404, 400, 409, 501),
		}},
		{Method: head, Path: "/containers/:id/archive", Versions: versionsSince(20), Do: h.archiveStat, Shape: route.Shape{
			About: "describes a path in the header X-Engine-Container-Path-Stat", Params: params(path),
			Codes: codes(200, 404, 400, 409, 501),
		}},
		{Method: get, Path: "/containers/:id/archive", Versions: versionsSince(20), Do: h.archiveGet, Shape: route.Shape{
			About: "gives a path as a tar archive, with its description", Params: params(path), OutMedia: compat.Tar,
			Codes: codes(200, 400, 404, 409, 501),
		}},
		{Method: put, Path: "/containers/:id/archive", Versions: versionsSince(20), Do: h.archivePut, Shape: route.Shape{
			About: "unpacks a tar archive, plain or compressed, into a folder",
			Params: params(path, boolParam("noOverwriteDirNonDir", "no folder in place of a file, nor the reverse"),
				boolParam("copyUIDGID", "all becomes the container's user's, if it has one; of 1.30")),
			InMedia:  compat.Tar,
			OutMedia: plainText, Codes: codes(200, 400, 403, 404, 409, 501),
		}},
	}
}

// execRoutes are about processes that are added to containers.
func (h *Handler) execRoutes() []route.Route {
	return []route.Route{
		{Method: post, Path: "/containers/:id/exec", Do: h.execCreate, Shape: route.Shape{
			About: "makes an exec instance, of which nothing runs yet", Params: params(mediaTypeParam()),
			In: reflect.TypeFor[types.ExecCreate](), Out: reflect.TypeFor[types.ExecCreated](), Codes: codes(201, 404, 409, 400),
			BadSince: v(25),
		}},
		{Method: post, Path: "/exec/:id/start", Do: h.execStart, Shape: route.Shape{
			About: "runs it, attached or detached", Params: upgradeParams(mediaTypeParam()),
			In: reflect.TypeFor[types.ExecStart](), OutMedia: compat.RawStream, Codes: codes(200, 404, 409, 101, 400),
			BadSince: v(25),
		}},
		{Method: post, Path: "/exec/:id/resize", Do: h.execResize, Shape: route.Shape{
			About: "sets the size of its terminal", Params: terminalSizeParams(), Codes: codes(201, 404, 400, 409), BadSince: v(25),
		}},
		{Method: get, Path: "/exec/:id/json", Do: h.execInspect, Shape: route.Shape{
			About: "shows it, until five minutes after its end; where the end of an engine has cut off its client, waits for its end, 30 s at most, and sets the header X-Output-Cut", Out: reflect.TypeFor[types.ExecInspect](), Codes: codes(200, 404),
		}},
	}
}
