// Package show turns records into what a person or a script reads: tables, templates, JSON, sizes and ages. It knows
// neither the API nor the commands.
package show
