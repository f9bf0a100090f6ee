// Package server listens for clients and hands their requests to the API's handler. It owns the sockets and who may use
// them: unix sockets for their owner alone, TCP on the loopback only and only when asked for, and listeners that were
// handed over open. It knows no endpoint.
package server
