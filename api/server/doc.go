// Package server listens for clients and hands their requests to the API's handler. It takes over sockets that listen
// already (package socket opens them), adds TLS to those of TCP, bounds how many connections there are and how long they may
// do nothing, and ends them so that nobody's answer is cut. It knows no endpoint.
package server
