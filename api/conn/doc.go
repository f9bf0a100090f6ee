// Package conn holds the ways in which an answer stops being a plain one: the connection handed over to both sides
// (attach), streams of JSON messages, and streams of a container's output. It writes heads and bytes and knows neither
// containers nor endpoints.
package conn
