package compat

import (
	"net/http"
	"strings"

	"moss/api/apiver"
)

// Headers of requests and answers, in the form in which http.Header keeps them. Credentials have the names of the documents
// (document 3, 5.1), which are those of the clients.
const (
	RequestID      = "X-Request-Id" // of moss: what the log calls request
	FaultKind      = "X-Fault-Kind" // of moss, of errors: their kind, which a status does not always tell
	RegistryAuth   = "X-Registry-Auth"
	RegistryConfig = "X-Registry-Config"
	BuildSecrets   = "X-Build-Secrets" // of moss
	OutputCut      = "X-Output-Cut"    // of moss, of exec inspect: the engine went while a client read the output
	// PathStat describes a path in the answers of the archive endpoints. Clients read the second one.
	PathStat       = "X-Engine-Container-Path-Stat"
	PathStatClient = "X-Docker-Container-Path-Stat"
)

// Header is one header of an answer with its value.
type Header struct {
	Key   string
	Value []string // shared by all answers: it is replaced, never changed
}

// Head returns what every answer carries: clients take the newest version and the system from it, and the command line
// takes the system out of Server, for which that must have the form NAME/VERSION (SYSTEM).
func Head(engine string, newest apiver.Version) []Header {
	return []Header{
		{"Server", []string{"moss/" + engine + " (linux)"}},
		{"Api-Version", []string{newest.String()}},
		{"Ostype", []string{"linux"}},
		{"Docker-Experimental", []string{"false"}},
	}
}

// CrossOrigin returns the headers that let pages of another origin read the answers: one origin, or * for all. There are
// none for the empty origin (document 3, 5.2).
func CrossOrigin(origin string) []Header {
	if origin == "" {
		return nil
	}
	head := []Header{
		{"Access-Control-Allow-Origin", []string{origin}},
		{"Access-Control-Allow-Headers", []string{"Origin, X-Requested-With, Content-Type, Accept, X-Registry-Auth"}},
		{"Access-Control-Allow-Methods", []string{"HEAD, GET, POST, DELETE, PUT, OPTIONS"}},
	}
	if origin != "*" {
		head = append(head, Header{"Vary", []string{"Origin"}}) // caches must not give it to other origins
	}
	return head
}

// Swarm is the header of a probe's answer that tells of this node's part in a swarm.
const Swarm = "Swarm"

// ProbeHead returns what the answer to a probe carries on a node in no swarm: nobody may keep it, and builds are asked for by
// POST /build.
func ProbeHead() []Header {
	return []Header{
		{"Cache-Control", []string{"no-cache, no-store, must-revalidate"}},
		{"Pragma", []string{"no-cache"}},
		{"Builder-Version", []string{"1"}},
		{Swarm, []string{"inactive"}},
	}
}

// Takeover returns the head of an answer whose connection is the stream from then on, in the form that clients of that
// time compare literally: 101 for those that asked to upgrade, 200 for others. Of the headers in set it takes those that
// every answer has.
func Takeover(set http.Header, upgrade bool, mediaType string) string {
	var b strings.Builder
	if upgrade {
		b.WriteString("HTTP/1.1 101 UPGRADED\r\nContent-Type: " + mediaType + "\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n")
	} else {
		b.WriteString("HTTP/1.1 200 OK\r\nContent-Type: " + mediaType + "\r\n")
	}
	for _, key := range []string{
		"Api-Version", "Ostype", "Docker-Experimental", "Server", RequestID,
		"Access-Control-Allow-Origin", "Vary",
	} {
		if value := set.Get(key); value != "" {
			b.WriteString(key + ": " + value + "\r\n")
		}
	}
	b.WriteString("\r\n")
	return b.String()
}
